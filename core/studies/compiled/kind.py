"""The compile study as a kind; programs of earlier studies are used again."""

from core.studies.compiled.answer import CompileAnswer, compile_answer
from core.studies.compiled.export import compile_data, compile_text
from core.studies.compiled.record import CompileStudy
from core.studies.compiled.run import CompileSearch, refuse_missing, run_compile_study
from core.studies.kind import About, Kind

COMPILED: Kind[CompileSearch, CompileStudy, CompileAnswer] = Kind(
    name="compiled",
    title="Compile study",
    record=CompileStudy,
    describe=lambda search: search.plan.title,
    run=run_compile_study,
    targets=lambda search: (search.plan.target,),
    check=refuse_missing,
    answer=lambda study, _: compile_answer(study),
    text=lambda study, answer, _: compile_text(study, answer),
    export=lambda study, answer, _: compile_data(study, answer),
    about=lambda study: About(network=study.plan.workload.title),
)
KIND = COMPILED
