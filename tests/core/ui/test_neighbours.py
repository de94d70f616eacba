"""The line about other programs stands on the page always, and never wraps."""

from core.base.evidence import Interference, ProcessUse
from core.ui.neighbours import BUSY_PCT, words


def test_the_line_about_other_programs_keeps_its_height() -> None:
    """Check that no state empties or wraps it: that would move the page and close an open list of options."""
    unseen, _ = words(Interference())
    quiet, _ = words(Interference(other_cpu_pct=BUSY_PCT))
    busy, _ = words(Interference(other_cpu_pct=1930.0))
    assert len({unseen, quiet, busy}) == 3
    shown = [line.removeprefix(":material/groups: ").strip("*") for line in (unseen, quiet, busy)]
    assert all(30 <= len(text) <= 44 for text in shown)


def test_a_busy_machine_names_its_cores_and_its_busiest_program() -> None:
    line, busiest = words(Interference(other_cpu_pct=193.0, busiest=(ProcessUse(name="a_b*c", cpu_pct=98.0),)))
    assert "1.9 cores" in line
    assert busiest == "a_b*c"
    assert words(Interference(other_cpu_pct=193.0))[1] == ""
