"""Common behaviour of all study pages with stored studies: result, qualifications, the example, embedding."""

from collections.abc import Callable
from typing import Any

import pytest

from core.studies.kind import Kind
from core.studies.registry import example_id, kind_of
from core.ui import registry
from simulated.diagnoses import HELPING, helping_diagnosis, make_diagnosis
from simulated.frontier_studies import log2_speed_up, make_frontier_study
from simulated.kinds import RUN
from simulated.pages import AT, chart_titles, damage, ended, says, text_of
from simulated.pipelines import make_pipeline_experiment
from simulated.scalings import LOGICAL, make_scaling_study
from tests.support.places import DIAGNOSIS, FRAMED, FRONTIER, PIPELINE, SCALING, STUDIES, Place
from tests.support.study_pages import keep

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]

every_study = pytest.mark.parametrize("place", STUDIES, ids=str)
every_frame = pytest.mark.parametrize("place", FRAMED, ids=str)


@every_study
def test_after_a_start_its_result_is_shown_whatever_the_address_named(engine: Any, place: Place) -> None:
    keep(engine, place.kind, study_id="study-a")
    at = place.open(engine, **{place.address: "study-a"})
    assert at.query_params[place.address] in ("study-a", ["study-a"])
    assert place.says not in text_of(at)
    engine.jobs.progress = AT
    place.start(at).click().run()
    assert place.address not in at.query_params or not place.says
    assert not chart_titles(at) or place.of_a_run
    keep(engine, place.kind, place.other(), "study-b")
    engine.jobs.show(ended(place.kind))
    at.run()
    assert place.says in text_of(at)
    assert at.query_params[place.address] in ("study-b", ["study-b"])
    assert not place.start(at).disabled


@every_study
def test_what_the_address_names_is_shown_and_what_is_not_here_is_said(engine: Any, place: Place) -> None:
    keep(engine, place.kind, place.other(), "study-a")
    keep(engine, place.kind, study_id="study-b")
    assert place.says in text_of(place.open(engine, **{place.address: "study-a"}))
    at = place.open(engine, **{place.address: "../../gone"})
    assert place.gone.format(noun=kind_of(place.kind).noun) in text_of(at)
    assert place.says not in text_of(at)


@pytest.mark.parametrize(
    ("place", "study", "sentences", "drawn"),
    [
        (PIPELINE, lambda: make_pipeline_experiment(status="cancelled", processes=1),
         ("This study was cancelled; what follows rests on its 6 rounds.", "started once only"), True),
        (PIPELINE, lambda: make_pipeline_experiment(status="cancelled", rounds=0, processes=1),
         ("Nothing was measured in this pipeline study.",), False),
        (FRONTIER, lambda: make_frontier_study(status="cancelled", starts=1),
         ("This study was cancelled", "started once only"), True),
        (FRONTIER, lambda: make_frontier_study(status="cancelled", settings=(0,), starts=1),
         ("too few for a map",), False),
        (FRONTIER, lambda: make_frontier_study(truth=lambda s: log2_speed_up(s) - 6),
         ("1 thread is faster throughout the map", "Inside this map the faster target does not change.",
          "The faster target does not change at depth 2."),
         True),
        (FRONTIER, lambda: make_frontier_study(truth=lambda s: log2_speed_up(s) + 6),
         ("2 threads are faster throughout the map", "The faster target does not change at depth 2."), True),
        (FRONTIER, lambda: make_frontier_study(truth=lambda _: 0.0, noise=0.05),
         ("it is not clear which target is faster", "not clear where on the map"), True),
        (SCALING, lambda: make_scaling_study(status="cancelled", processes=1),
         ("This study was cancelled; what follows rests on its 32 rounds.", "started once only"), True),
        (SCALING, lambda: make_scaling_study(status="cancelled", processes=0),
         ("no measured round",), False),
        (SCALING, lambda: make_scaling_study(targets=LOGICAL),
         ("this tries the study out and shows no speed of several devices", "no speed of several devices"), True),
        (DIAGNOSIS, lambda: helping_diagnosis(RUN, status="cancelled"),
         ("This diagnosis was cancelled; what follows rests on the 18 rounds measured until then.",), True),
        (DIAGNOSIS, lambda: make_diagnosis(RUN, processes=0, status="cancelled"),
         ("Nothing could be measured, so nothing can be said.",
          "This diagnosis was cancelled; no round was measured."), False),
        (DIAGNOSIS, lambda: helping_diagnosis(RUN, other_cpu_pct=95.0),
         ("Other processes used 95 % of a core during 18 of 18 rounds.",), True),
        (DIAGNOSIS, lambda: make_diagnosis(RUN, HELPING, processes=1, rounds=3),
         ("It is not clear whether these help", "The workers were started once only"), False),
    ],
    ids=lambda value: str(value) if isinstance(value, Place) else "",
)  # fmt: skip
def test_what_qualifies_a_result_is_said(
    engine: Any, place: Place, study: Callable[[], Any], sentences: tuple[str, ...], drawn: bool
) -> None:
    keep(engine, place.kind, study())
    at = place.open(engine)
    says(at, *sentences)
    assert bool(chart_titles(at)) is drawn
    assert not place.start(at).disabled


@every_study
def test_a_damaged_study_says_so_and_the_page_stays(engine: Any, place: Place) -> None:
    keep(engine, place.kind, study_id="study-a")
    damage(engine.store, "study-a")
    at = place.open(engine)
    assert f"no Breakeven {kind_of(place.kind).record.noun}" in text_of(at)
    assert place.measures_shown or not place.start(at).disabled


@pytest.mark.parametrize("place", [*FRAMED, SCALING, DIAGNOSIS], ids=str)
def test_the_newest_study_is_shown_and_older_ones_can_be_chosen(engine: Any, place: Place) -> None:
    keep(engine, place.kind, place.other(), "study-a")
    keep(engine, place.kind, study_id="study-b")
    at = place.open(engine)
    assert place.says not in text_of(at)
    choice = next(box for box in at.selectbox if box.label == kind_of(place.kind).title)
    assert [option.partition(": ")[2] for option in choice.options] == [place.make().title] * 2
    choice.select_index(1).run()
    assert place.says in text_of(at)
    assert at.query_params["study"] in ("study-a", ["study-a"])


@every_frame
def test_the_example_is_shown_until_there_is_a_study_and_by_its_address(engine: Any, place: Place) -> None:
    kind: Kind[Any, Any, Any] = kind_of(place.kind)
    at = place.open(engine)
    says(at, "finished example", "will be measured")
    assert (shown := chart_titles(at))
    keep(engine, place.kind)  # labelled recorded, as an imported one is
    assert "A finished example" not in text_of(place.open(engine))
    at = place.open(engine, study=example_id(kind))
    assert "A finished example" in text_of(at)
    assert chart_titles(at) == shown
    assert not at.error


@every_frame
def test_a_missing_example_is_no_error(engine: Any, monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    def missing(_: str) -> None:
        raise FileNotFoundError("example.json")

    monkeypatch.setattr(registry, "load_example", missing)
    at = place.open(engine)
    assert not at.error
    assert "will be measured" in text_of(at)


@pytest.mark.parametrize("place", [*FRAMED, SCALING, DIAGNOSIS], ids=str)
def test_embedded_it_is_the_verdict_and_the_charts_of_what_was_asked_for(engine: Any, place: Place) -> None:
    keep(engine, place.kind, place.other(), "study-a")
    keep(engine, place.kind)
    assert chart_titles(place.open(engine, embedded=True)) == chart_titles(place.open(engine))
    assert place.says in text_of(place.open(engine, embedded=True, study="study-a"))
    assert place.says not in text_of(at := place.open(engine, embedded=True))
    for element in ("title", "button", "select_slider", "dataframe", "table", "expander", "selectbox", "page_link"):
        assert not getattr(at, element), element
    at = place.open(engine, embedded=True, study="gone")
    assert [error.value for error in at.error] == [place.gone.format(noun=kind_of(place.kind).noun)]
    assert [*chart_titles(at), *at.header, *at.info] == []
