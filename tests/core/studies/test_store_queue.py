"""Measuring never waits for the store, and the store receives everything in order as soon as it can."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from core.base.schema import UserError
from core.studies import store_queue
from core.studies.runner import StudyFailed, Unavailable
from core.studies.store_queue import StoreQueue

RUN: Any = SimpleNamespace(id="a")
PATIENCE_S = 60.0


class Log:
    """Log of requests that first does what the test wants."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.first = lambda _: None

    def __getattr__(self, name: str) -> Any:
        def noted(*given: Any) -> None:
            call = (name, given[0].id if name == "begin" else given[0])
            self.first(call)
            self.calls.append(call)

        return noted


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def kept(log: Log, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreQueue]:
    monkeypatch.setattr(store_queue, "RETRY_S", 0.01)
    made = StoreQueue(log)
    yield made
    log.first = lambda _: None
    made.close(PATIENCE_S)


def measure(kept: StoreQueue, study_id: str = "a") -> None:
    kept.record(study_id, (1, 2))
    kept.finish(study_id, "finished", 1.0)


def test_a_healthy_store_has_everything_before_measuring_goes_on(kept: StoreQueue, log: Log) -> None:
    kept.begin(RUN)
    assert log.calls == [("begin", "a")]
    kept.record("a", (1,))
    assert log.calls[-1] == ("record", "a")
    assert kept.unwritten() is None


def test_a_store_that_hangs_is_waited_for_once_and_gets_everything_in_order_later(
    kept: StoreQueue, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    log.first = lambda _: free.wait(PATIENCE_S)
    monkeypatch.setattr(store_queue, "WAIT_S", 0.05)
    kept.begin(RUN)
    monkeypatch.setattr(store_queue, "WAIT_S", PATIENCE_S)
    began = time.monotonic()
    for _ in range(50):
        kept.record("a", (1, 2))
    assert time.monotonic() - began < PATIENCE_S / 2, "with one thing waiting, nothing else is waited for"
    assert "100 records" in kept.unwritten()
    free.set()
    kept.close(PATIENCE_S)
    assert log.calls == [("begin", "a"), *[("record", "a")] * 50]
    assert kept.unwritten() is None


@pytest.mark.parametrize("error", [Unavailable("It is locked."), OSError("It is away.")], ids=["locked", "away"])
def test_what_fails_for_now_is_tried_again(kept: StoreQueue, log: Log, error: Exception) -> None:
    left = [error] * 3

    def fail(_: object) -> None:
        if left:
            raise left.pop()

    log.first = fail
    kept.begin(RUN)
    measure(kept)
    kept.close(PATIENCE_S)
    assert log.calls == [("begin", "a"), ("record", "a"), ("finish", "a")]
    assert kept.unwritten() is None


def test_what_is_not_written_at_the_end_is_said_and_not_tried_any_more(kept: StoreQueue, log: Log) -> None:
    def fail(_: object) -> None:
        raise Unavailable("It is locked.")

    log.first = fail
    kept.begin(RUN)
    measure(kept)
    kept.close(0.0)
    assert "3 records" in kept.unwritten()
    log.first = lambda _: None
    assert kept._thread is not None
    kept._thread.join(PATIENCE_S)
    assert not kept._thread.is_alive()
    assert log.calls == []


def test_what_is_refused_for_good_takes_the_rest_of_its_study_along_and_no_other(kept: StoreQueue, log: Log) -> None:
    def refuse(call: tuple[str, str]) -> None:
        if call == ("begin", "a"):
            raise UserError("No.")

    log.first = refuse
    kept.begin(RUN)
    measure(kept)
    measure(kept, "b")
    assert log.calls == [("record", "b"), ("finish", "b")]
    assert "3 records" in kept.unwritten()
    kept.forget()
    assert kept.unwritten() is None
    log.first = lambda _: None
    kept.begin(RUN)
    measure(kept)
    assert log.calls[2:] == [("begin", "a"), ("record", "a"), ("finish", "a")], "asked for again, it is tried again"


def test_a_run_that_must_not_be_measured_is_refused_at_once(kept: StoreQueue, log: Log) -> None:
    def refuse(_: object) -> None:
        raise StudyFailed("Another process measures it.")

    log.first = refuse
    with pytest.raises(StudyFailed, match="Another process"):
        kept.begin(RUN)
    assert kept.unwritten() is None
