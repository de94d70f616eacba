"""The memory study as a kind; an answer takes earlier studies of the same machine into account."""

from core.studies.kind import About, Kind
from core.studies.memory.answer import MemoryAnswer, memory_answer
from core.studies.memory.export import memory_data, memory_text
from core.studies.memory.record import MemoryStudy
from core.studies.memory.run import MemorySearch, run_memory_study

MEMORY: Kind[MemorySearch, MemoryStudy, MemoryAnswer] = Kind(
    name="memory",
    title="Memory study",
    record=MemoryStudy,
    describe=lambda search: f"Memory of {search.plan.title}",
    run=run_memory_study,
    targets=lambda search: (search.plan.target,),
    answer=lambda study, context: memory_answer(study, context.earlier),
    text=lambda study, answer, _: memory_text(study, answer),
    export=lambda study, answer, _: memory_data(study, answer),
    about=lambda study: About(
        network=study.plan.workload.title, targets=(study.plan.target,), run_id=study.plan.run_id
    ),
    example="example_memory.json",
    of_a_run=True,
)
KIND = MEMORY
