"""Protocol of a fleet node: numbered items of its run, asked for by number and sent as JSON.

A question states up to which number everything is known, so that a duplicate or missing answer costs nothing. What is
not in the protocol is Garbled, whoever sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from core.evidence import Process, Setup, Status, Warning
from core.schema import Frozen, UserError, explain, parse_json
from core.studies.sweep.record import Cell, EnergyWindow, LoopCost, Round, Run, RunRecord
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
