"""Common behaviour of all forms: wrong fields are marked and counted, no two share a name. Progress by time."""

from dataclasses import replace
from typing import Any

import pytest

from simulated.pages import AT, running, stop_time, text_of
from tests.support.places import FRONTIER, PIPELINE, SCALING, STUDIES, SWEEP, Place

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]


@pytest.mark.parametrize("place", [SWEEP, *STUDIES], ids=str)
def test_progress_goes_by_time_never_back_and_is_whole_only_at_the_end(
    engine: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_time(monkeypatch)
    engine.jobs.show(running(place.kind, at=replace(AT, elapsed_s=0.0, remaining_s=0.0)))
    at = place.open(engine)
    shown = [at.progress[0].value]
    for elapsed_s, remaining_s in ((60.0, 40.0), (61.0, 60.0), (118.0, 2.0), (125.0, 0.0)):
        later = replace(AT, cells_done=14, elapsed_s=elapsed_s, remaining_s=remaining_s)
        engine.jobs.show(running(place.kind, at=later))
        shown.append(at.run().progress[0].value)
    assert shown == [0, 60, 60, 98, 99]


def test_before_the_first_report_nothing_is_done(engine: Any) -> None:
    engine.jobs.show(running("scaling", at=replace(AT, elapsed_s=0.0, remaining_s=0.0)))
    assert SCALING.open(engine).progress[0].value == 0


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        (SWEEP, ("form_mlp_width", "form_low", "form_budget")),
        (FRONTIER, ("frontier_mlp_width_high", "frontier_mlp_depth_low", "frontier_budget")),
        (PIPELINE, ("form_mlp_width", "pipeline_batch", "pipeline_budget")),
        (SCALING, ("form_mlp_width", "scaling_low", "scaling_budget")),
    ],
    ids=str,
)
def test_every_wrong_choice_is_marked_and_counted(engine: Any, place: Place, keys: tuple[str, ...]) -> None:
    at = place.open(engine)
    for count, key in enumerate(keys, start=1):
        at.number_input(key=key).set_value(0).run()
        assert len(at.error) == count
        verb = "choice below is" if count == 1 else "choices below are"
        assert f"{count} {verb} not possible yet" in text_of(at)
    assert place.start(at).disabled


@pytest.mark.parametrize("place", [SWEEP, FRONTIER, PIPELINE, SCALING], ids=str)
def test_no_two_fields_of_a_form_share_a_name(engine: Any, place: Place) -> None:
    at = place.open(engine)
    fields = [*at.number_input, *at.selectbox, *at.text_input]
    names = [field.label for field in fields if str(field.key).startswith((place.kind, "form_"))]
    assert len(names) > 8
    assert len(set(names)) == len(names)
    assert not [name for name in names if "*" in name]
