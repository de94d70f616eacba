"""Pauses in which pages draw: their time, their recipients, and their end."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

import pytest

from core.studies import pauses
from core.studies.pauses import Pauses
from simulated.simulation import VirtualClock


class Page:
    """A part of a page that waits for pauses and draws for ``draws_s`` in each, on the virtual clock."""

    def __init__(self, course: "Course", draws_s: float, changes: bool = False, pauses: bool = True) -> None:
        self._course, self._draws_s, self._wants = course, draws_s, {"changes": changes, "pauses": pauses}
        self.drawn_at: list[float] = []
        self._stack = ExitStack()
        self.wait()

    def wait(self) -> None:
        self._stack = ExitStack()
        self._stack.enter_context(self._course.pauses.waiting(self._wake, **self._wants))

    def leave(self) -> None:
        self._stack.close()

    def _wake(self) -> None:
        self.drawn_at.append(self._course.clock.now_s())
        self._course.drawing.append((self._course.clock.now_s() + self._draws_s, self))


class Course:
    """A measurement whose engine thread and pages share one virtual clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.drawing: list[tuple[float, Page]] = []
        self.paused: list[tuple[float, float]] = []
        self.cancel = threading.Event()
        self.cancel_at_s = float("inf")
        self.pauses = Pauses(self.clock, self._let_pass)
        self.pauses.begin()

    def measure(self, seconds: float, visit_s: float = 0.5) -> None:
        """Make visits with a possible pause after each."""
        end_s = self.clock.now_s() + seconds
        while self.clock.now_s() < end_s:
            self.clock.advance(visit_s)
            self.settle()
            self.pauses.pause(self.cancel)

    def settle(self) -> None:
        """Let pages that have drawn by now wait again."""
        for item in [item for item in self.drawing if item[0] <= self.clock.now_s()]:
            self.drawing.remove(item)
            item[1].wait()

    def _let_pass(self, _: threading.Condition, over: Callable[[], bool], longest_s: float) -> bool:
        begin_s = self.clock.now_s()
        while not over() and self.clock.now_s() - begin_s < longest_s - 1e-9:
            self.clock.advance(0.01)
            if self.clock.now_s() >= self.cancel_at_s:
                self.cancel.set()
            self.settle()
        self.paused.append((begin_s, self.clock.now_s()))
        return over()


@pytest.fixture
def course() -> Course:
    return Course()


def lengths(course: Course) -> list[float]:
    return [end - begin for begin, end in course.paused]


def test_without_an_open_page_there_is_no_pause(course: Course) -> None:
    course.measure(60)
    assert course.paused == []
    assert course.clock.now_s() == 60


def test_a_part_that_waits_for_changes_alone_causes_no_pause(course: Course) -> None:
    page = Page(course, 0.1, changes=True, pauses=False)
    course.measure(60)
    assert (course.paused, page.drawn_at) == ([], [])


def test_pages_draw_in_pauses_alone_which_end_once_all_have_drawn(course: Course) -> None:
    pages = [Page(course, 0.1), Page(course, 0.3)]
    course.measure(45)
    assert [begin for begin, _ in course.paused] == pages[0].drawn_at == pages[1].drawn_at
    assert lengths(course) == pytest.approx([0.3] * len(course.paused), abs=0.02)
    assert course.paused[0][0] == 0.5, "the first comes after the first visit"
    assert 4 <= len(course.paused) <= 5


def test_a_slow_page_holds_it_up_no_longer_than_a_moment_and_no_more_than_a_share_of_the_time(course: Course) -> None:
    Page(course, 3.0)
    course.measure(90)
    assert lengths(course) == pytest.approx([pauses.LONGEST_S] * len(course.paused), abs=0.02)
    gaps = [after[0] - before[1] for before, after in pairwise(course.paused)]
    assert min(gaps) >= pauses.LONGEST_S / pauses.SHARE - 1e-6
    assert sum(lengths(course)[1:]) <= pauses.SHARE * 90


def test_in_a_long_run_pauses_are_seldom(course: Course) -> None:
    Page(course, 0.1)
    course.measure(3600)
    late = [begin for begin, _ in course.paused if begin > 1800]
    assert min(after - before for before, after in pairwise(late)) >= pauses.SELDOM_S


def test_what_is_seen_for_the_first_time_makes_the_next_pause_due(course: Course) -> None:
    page = Page(course, 0.1)
    course.measure(2)
    assert len(page.drawn_at) == 1
    course.pauses.soon()
    course.measure(2)
    assert len(page.drawn_at) == 2


def test_a_page_that_is_opened_meanwhile_is_drawn_at_the_next_visit(course: Course) -> None:
    course.measure(20)
    page = Page(course, 0.1)
    course.measure(1)
    assert page.drawn_at == [20.5]


def test_a_page_that_is_closed_is_waited_for_no_more(course: Course) -> None:
    page = Page(course, 0.1)
    page.leave()
    course.measure(20)
    assert course.paused == []


def test_cancelling_ends_a_pause_at_once_and_none_follows(course: Course) -> None:
    Page(course, 3.0)
    course.cancel_at_s = 0.6
    course.measure(30)
    assert lengths(course) == pytest.approx([0.1], abs=0.02)


def test_a_change_is_drawn_at_once_by_those_that_wait_for_it(course: Course) -> None:
    told, charts = Page(course, 0.1, changes=True), Page(course, 0.1)
    before = course.pauses.changes
    course.pauses.change()
    assert (told.drawn_at, charts.drawn_at) == ([0.0], [])
    assert course.pauses.changes == before + 1


def test_a_change_from_another_thread_ends_a_pause() -> None:
    """Wait in real time: the request to stop releases the engine's thread long before the pause is over."""
    real, cancel, announced = Pauses(VirtualClock()), threading.Event(), threading.Event()
    with real.waiting(announced.set, changes=False, pauses=True):
        engine = threading.Thread(target=real.pause, args=(cancel, 60.0))
        engine.start()
        assert announced.wait(10)
        cancel.set()
        real.change()
        engine.join(10)
    assert not engine.is_alive()
