"""Output to a pipe, and to a terminal."""

import sys

import pytest
from rich.console import Console

from core.cli import main
from core.cli.terminal import say, say_lines, show, show_json, shown_progress
from core.rounds.answer.analyse import analyse
from core.studies.progress import Progress
from simulated.runs import make_run
from tests.support.hostile import ACTING, HOSTILE

ANSWER = analyse(make_run())


def at(elapsed_s: float, activity: str = "Measuring batch 8", phase: str = "measuring", **more: object) -> Progress:
    return Progress(phase, activity, 1, 12, elapsed_s, 60.0 - elapsed_s, **more)  # type: ignore[arg-type]


def test_a_pipe_gets_a_line_for_a_phase_and_else_what_is_new_every_two_seconds(capfd: pytest.CaptureFixture) -> None:
    with shown_progress() as show:
        show(at(0.0, "Starting", "starting"))
        show(at(0.5))
        show(at(1.0, "Measuring batch 16"))
        show(at(3.0, "Measuring batch 32", answer=ANSWER))
        show(at(6.0, "Measuring batch 32", answer=ANSWER))
        show(at(0.0, "Measuring again"))
    assert capfd.readouterr().err.splitlines() == [
        "   0.0 s  Starting (1 of 12).",
        "   0.5 s  Measuring batch 8 (1 of 12).",
        f"   3.0 s  Measuring batch 32 (1 of 12).  So far: {ANSWER.verdict.sentence}",
        "   0.0 s  Measuring again (1 of 12).",
    ]


def test_nothing_that_is_printed_acts_on_a_terminal(capfd: pytest.CaptureFixture) -> None:
    """Print hostile text, whoever made it."""
    for print_it in (say, say_lines, show, lambda text: show_json({text: text})):
        print_it(HOSTILE)
    with shown_progress() as progress:
        progress(at(0.0, HOSTILE))
    out, err = capfd.readouterr()
    assert HOSTILE.count("\n") == 2  # only say_lines keeps them
    assert not set(out + err) & (set(ACTING) - {"\n"})
    assert (out + err).count("?[31mred") == 4


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_a_bar_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=True, width=100, record=True)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with shown_progress() as show:
        show(at(15.0, "Measuring [batch] 8"))
    drawn = console.export_text()
    assert "45 s left" in drawn
    assert "Measuring [batch] 8" in drawn


@pytest.mark.usefixtures("terminal")
def test_only_a_terminal_with_colours_gets_a_header_that_stands_out(monkeypatch: pytest.MonkeyPatch) -> None:
    styled = "\x1b[36m\x1b[1mname  "
    printed: list[str] = []
    monkeypatch.setattr("click.echo", lambda text, **_: printed.append(text))
    main(["gpus"])
    assert printed[0].startswith(styled)
    assert printed[0].count("\x1b[1m") == 1
    monkeypatch.setenv("NO_COLOR", "1")
    main(["gpus"])
    assert printed[1].startswith("name  ")


def test_without_a_known_end_what_is_done_is_told_by_cells() -> None:
    assert at(15.0).share(45.0) == 0.25
    assert at(15.0).share(30.0) == 0.5
    assert at(60.0).share(0.0) == 1 / 12
