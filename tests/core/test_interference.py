"""Detection of disturbed rounds: from what other programs took, never from how long the round lasted."""

import pytest

from core.base.evidence import (
    DISTURBING_OTHERS_PCT,
    DISTURBING_STEAL_PCT,
    DISTURBING_WAIT_PCT,
    PRESENT_PCT,
    Interference,
)


@pytest.mark.parametrize(
    ("seen", "disturbed"),
    [
        (Interference(), None),
        (Interference(other_cpu_pct=DISTURBING_OTHERS_PCT), False),
        (Interference(other_cpu_pct=DISTURBING_OTHERS_PCT + 1), True),
        # on another core than ours a neighbour takes nothing from us
        (Interference(other_cpu_pct=100.0, wait_pct=DISTURBING_WAIT_PCT), False),
        (Interference(other_cpu_pct=100.0, wait_pct=DISTURBING_WAIT_PCT + 0.1), True),
        # our own threads waited for each other
        (Interference(other_cpu_pct=PRESENT_PCT, wait_pct=80.0), False),
        (Interference(wait_pct=80.0), True),
        (Interference(wait_pct=0.0, steal_pct=DISTURBING_STEAL_PCT + 0.1), True),
        (Interference(wait_pct=0.0, steal_pct=DISTURBING_STEAL_PCT), False),
        (Interference(steal_pct=0.0), None),
    ],
)
def test_disturbed_is_what_was_taken_from_us(seen: Interference, disturbed: bool | None) -> None:
    assert seen.disturbed is disturbed


def test_waits_are_stored_only_where_they_are_known() -> None:
    assert "wait_pct" not in Interference(other_cpu_pct=1.0).model_dump_json()
    kept = Interference(wait_pct=12.5)
    assert Interference.model_validate_json(kept.model_dump_json()) == kept
