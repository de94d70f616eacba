"""Protocol of a fleet node: numbered items of its run, asked for by number and sent as JSON.

A question states up to which number everything is known, so that a duplicate or missing answer costs nothing. What is
not in the protocol is Garbled, whoever sent it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from core.base.evidence import Process, Setup, Status, Warning
from core.base.schema import Frozen, UserError, explain, parse_json
from core.rounds.run import Cell, EnergyWindow, LoopCost, Round, Run, RunRecord
from core.studies.runner import NullRecorder, Recorder
from core.studies.sweep.ledger import Ledger
from core.traces.record import TracedCell

MAX_ANSWER_BYTES = 8_000_000
MAX_ITEMS = 500
"""Most items per answer; the rest comes with the next one."""
ENOUGH_BYTES = 2_000_000
"""Size of an answer after which no further item is added; a trace may have a megabyte."""
MAX_SAID = 1_000
Said = Annotated[str, Field(max_length=MAX_SAID)]


class Garbled(UserError):
    """An answer violates the protocol; the sentence says how."""


class Waits(Frozen):
    """The machine is not free; ``reason`` says who holds it."""

    reason: Said


class Ended(Frozen):
    """The run is over. ``refused``: it was not begun, since the machine cannot be measured on as it is."""

    status: Status
    elapsed_s: Annotated[float, Field(ge=0)] = 0.0
    reason: Said = ""
    refused: bool = False


Item = Run | RunRecord | Waits | Ended
"""A Run is the first item: without rounds, with the machine's environment."""

MODELS: dict[str, type[Frozen]] = {
    "begun": Run, "process": Process, "setup": Setup, "round": Round, "cell": Cell, "warning": Warning,
    "trace": TracedCell, "energy": EnergyWindow, "loop": LoopCost, "waits": Waits, "ended": Ended,
}  # fmt: skip
KINDS = {model: kind for kind, model in MODELS.items()}


class _Answer(Frozen):
    run_id: Annotated[str, Field(max_length=64)]
    question: Annotated[int, Field(ge=0)]
    first: Annotated[int, Field(ge=1)]
    items: Annotated[tuple[tuple[str, Any], ...], Field(max_length=MAX_ITEMS)]
    activity: Said = ""
    left_s: Annotated[float, Field(ge=0)] = 0.0


class Answer(Frozen):
    """Answer of a node: ``items`` are numbered from ``first``; ``activity`` and ``left_s`` are the run's activity and
    time left.
    """

    run_id: str
    question: int
    first: int
    items: tuple[Item, ...]
    activity: str = ""
    left_s: float = 0.0

    def after(self, known: int) -> tuple[Item, ...]:
        """Return the items after number ``known``."""
        return self.items[max(0, known + 1 - self.first) :]


_ANSWER = TypeAdapter(_Answer)


def encode(item: Item) -> bytes:
    """Encode one item as JSON: its kind and its fields."""
    return b'["%s",%s]' % (KINDS[type(item)].encode(), item.model_dump_json().encode())


def answer(
    run_id: str, question: int, first: int, items: Sequence[bytes], activity: str = "", left_s: float = 0.0
) -> bytes:
    """Assemble an answer from encoded items."""
    head = _Answer(run_id=run_id, question=question, first=first, items=(), activity=activity[:MAX_SAID], left_s=left_s)
    return head.model_dump_json().encode().replace(b'"items":[]', b'"items":[%s]' % b",".join(items), 1)


def fitting(items: Sequence[bytes]) -> Sequence[bytes]:
    """Return as many of the first items as one answer may hold."""
    size = 0
    for count, item in enumerate(items[:MAX_ITEMS]):
        size += len(item)
        if size > ENOUGH_BYTES:
            return items[: count + 1]
    return items[:MAX_ITEMS]


def decode(data: object) -> Answer:
    """Decode an answer. Raises Garbled."""
    if not isinstance(data, bytes) or len(data) > MAX_ANSWER_BYTES:
        raise Garbled("It answered what is not in the protocol.")
    try:
        found = _ANSWER.validate_python(parse_json(data))
        items: Any = tuple(decode_item(kind, value) for kind, value in found.items)
    except ValidationError as error:
        raise Garbled(f"It answered what is not in the protocol: {explain(error)}") from None
    except (ValueError, KeyError, RecursionError):
        raise Garbled("It answered what is not in the protocol.") from None
    return Answer.model_construct(**(dict(found) | {"items": items}))


def decode_item(kind: str, value: object) -> Item:
    """Decode an item. Raises ValidationError, or KeyError for an unknown kind."""
    return MODELS[kind].model_validate(value)  # type: ignore[return-value]


class Spool:
    """Recorder in front of another one; it keeps runs until it is closed, and :meth:`run` reassembles one."""

    def __init__(self, recorder: Recorder) -> None:
        self._next = recorder
        self._folder = tempfile.TemporaryDirectory(prefix="breakeven-fleet-")
        self._ended: dict[str, tuple[Status, float]] = {}

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def begin(self, run: Run) -> None:
        self._write(run.id, (run,), "wb")
        self._next.begin(run)

    def record(self, run_id: str, records: tuple[RunRecord, ...]) -> None:
        self._write(run_id, records, "ab")
        self._next.record(run_id, records)

    def finish(self, run_id: str, status: Status, elapsed_s: float) -> None:
        self._ended[run_id] = status, elapsed_s
        self._next.finish(run_id, status, elapsed_s)

    def delete(self, run_id: str) -> None:
        self._path(run_id).unlink(missing_ok=True)
        self._next.delete(run_id)

    def run(self, run_id: str) -> Run:
        """Return the whole run. Raises OSError for one that was never begun."""
        with self._path(run_id).open("rb") as lines:
            begun, *records = (decode_item(*from_json(line)) for line in lines)
        assert isinstance(begun, Run)
        status, elapsed_s = self._ended.get(run_id, ("interrupted", 0.0))
        ledger = Ledger(begun, NullRecorder())
        ledger.add(*records)  # type: ignore[arg-type]
        return ledger.finish(status, elapsed_s)

    def _write(self, run_id: str, items: Iterable[Run | RunRecord], mode: str) -> None:
        with self._path(run_id).open(mode) as file:
            file.writelines(encode(item) + b"\n" for item in items)

    def _path(self, run_id: str) -> Path:
        return Path(self._folder.name) / f"{run_id}.jsonl"
