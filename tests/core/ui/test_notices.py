"""Qualifications of a verdict are stated once, the most important first."""

from dataclasses import replace

import pytest

from core.base.evidence import Interference, Warning
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import SpeedUp
from core.rounds.run import Status
from core.ui.machine import Machine
from core.ui.notices import REASONS, notices, status_notice
from core.ui.tables import cells_table, environment_table
from core.ui.verdict import faster_at
from core.ui.words import plain
from simulated.commands import holds
from simulated.runs import make_environment, make_run


@pytest.mark.parametrize(
    ("status", "level", "words"),
    [
        ("cancelled", "info", "cancelled"),
        ("interrupted", "warning", "restart"),
        ("failed", "error", "failed"),
        ("running", "info", "still running"),
    ],
)
def test_status_comes_first(status: Status, level: str, words: str) -> None:
    run = make_run(1, status=status)
    first = notices(run, analyse(run))[0]
    assert first.level == level
    assert words in first.text


def test_a_finished_run_needs_no_status() -> None:
    assert status_notice(make_run(1)) is None


def test_no_sentence_is_said_twice() -> None:
    run = make_run(2, with_failures=True)
    answer = analyse(run)
    unstable = replace(answer.verdict, kind="inconclusive", reason="unstable_machine", warnings=run.warnings)
    texts = [notice.text for notice in notices(run, replace(answer, verdict=unstable))]
    assert len(texts) == len(set(texts))
    assert texts[0] == REASONS["unstable_machine"]
    assert any("out of memory" in text for text in texts)
    assert run.warnings[0].text in texts


def test_what_is_wrong_with_the_device_comes_before_its_neighbours() -> None:
    both = Interference(other_cpu_pct=193.0, cpu_mhz=3000.0, throttled=True, gpu_shared_by=("train.py",))
    run = make_run(2)
    rounds = tuple(item.model_copy(update={"interference": both}) for item in run.rounds)
    lost = Warning(code="lost_1_32_1", text="The worker of gpu:0 was lost.")
    run = run.model_copy(update={"rounds": rounds, "warnings": (*run.warnings, lost)})
    texts = [notice.text for notice in notices(run, analyse(run))]
    begins = ("Heat", "Other processes used the GPU", "The worker of gpu:0", "Other processes used 193 %")
    found = [words for text in texts for words in begins if text.startswith(words)]
    assert found == list(begins)


def test_every_reason_for_doubt_is_explained() -> None:
    run = make_run(1)
    answer = analyse(run)
    for reason, why in REASONS.items():
        verdict = replace(answer.verdict, kind="inconclusive", reason=reason)
        assert why in [notice.text for notice in notices(run, replace(answer, verdict=verdict))]


def test_a_run_without_rounds_says_so() -> None:
    run = make_run(1).model_copy(update={"rounds": ()})
    assert "No round" in notices(run, None)[0].text


@pytest.mark.parametrize(
    ("speed_up", "value", "bounds", "who"),
    [
        (SpeedUp(8, 2.0, 1.9, 2.1), "2× faster", "1.9× to 2.1×", "gpu:0"),
        (SpeedUp(8, 0.5, 0.4, 0.625), "2× faster", "1.6× to 2.5×", "cpu"),
        (SpeedUp(8, 1.1, 0.5, 2.0), "not clear", "0.5× to 2×", "gpu:0"),
        (SpeedUp(8, 1.1, None, None), "not clear", "no interval", "gpu:0"),
    ],
)
def test_nobody_is_called_faster_where_parity_is_possible_or_nothing_is_known(
    speed_up: SpeedUp, value: str, bounds: str, who: str
) -> None:
    assert faster_at(speed_up, ("cpu", "gpu:0")) == (value, bounds, who)


def test_markup_in_names_is_made_plain() -> None:
    assert plain("*a* [b](c) :red[d]") == "\\*a\\* \\[b\\](c) &#58;red\\[d\\]"


def test_cells_table_speaks_words() -> None:
    run = make_run(1, with_failures=True)
    table = cells_table(run, analyse(run))
    assert len(table) == len(run.cells)
    assert "out of memory" in set(table["outcome"])
    first = table.iloc[0]
    answer = analyse(run)
    cell = answer.cell(0, 1)
    assert first["step_ms"] == cell.step_ms


def test_environment_table_says_what_could_not_be_seen() -> None:
    facts = dict(environment_table(make_environment()).itertuples(index=False))
    assert facts["GPU"] == "none found"
    assert facts["CPU governor"] == "not seen"
    holds(facts["Cores"], "2 physical", "4 logical", "use 4 cores")


def test_environment_table_says_what_a_container_leaves() -> None:
    limits = {"usable_cores": 1, "cpu_quota": 1.5, "container_memory_bytes": 1_600_000_000}
    here = make_environment().model_copy(update={**limits, "memory_available_bytes": 1_200_000_000})
    facts = dict(environment_table(here).itertuples(index=False))
    holds(facts["Cores"], "1 of 4", "quota of 1.5")
    holds(facts["Memory"], "1.2 GB free", "limit of 1.6")


def test_default_targets_always_differ() -> None:
    for devices, threads in ((("cpu", "gpu:0"), 8), (("cpu",), 8), (("cpu",), 1)):
        first, second = Machine(devices, {}, threads, ()).default_targets()
        assert first != second
