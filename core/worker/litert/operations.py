"""Operations of a LiteRT program: where they ran, and which in int8. Read from its interpreter; no framework."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from core.base.numbers import counted

DELEGATE = "DELEGATE"
CASTS = ("QUANTIZE", "DEQUANTIZE")
MOST_NAMED = 4


def placement(made: Any) -> tuple[str, ...]:
    """Return text such as ``CPU (XNNPACK: 3 of 3 operations)``, and kinds of operation in LiteRT's own kernels."""
    operations, delegated = _operations(made)
    own = Counter(op["op_name"] for op in operations if op["index"] not in delegated)
    summary = [f"CPU (XNNPACK: {len(delegated)} of {counted(len(operations), 'operation')})"]
    if own:
        summary.append(f"CPU (LiteRT's own kernels: {_named(own)})")
    return tuple(summary)


def in_int8(made: Any) -> str:
    """Return how many of the operations compute in int8, and the kinds of the others."""
    operations, _ = _operations(made)
    computing = [op for op in operations if op["op_name"] not in CASTS]
    others = Counter(op["op_name"] for op in computing if np.int8 not in op["operand_types"])
    words = f"{len(computing) - others.total()} of {counted(len(computing), 'operation')}"
    return f"{words}; not {_named(others)}" if others else words


def _operations(made: Any) -> tuple[list[dict[str, Any]], set[int]]:
    """Return the program's own operations, and the indices of those that a delegate took over.

    These are all operations between a delegate's inputs and its outputs.
    """
    details = made._get_ops_details()
    operations = [op for op in details if op["op_name"] != DELEGATE]
    producer = {tensor: op for op in operations for tensor in op["outputs"]}
    delegated: set[int] = set()
    for delegate in (op for op in details if op["op_name"] == DELEGATE):
        taken = set(delegate["inputs"])
        wanted = [tensor for tensor in delegate["outputs"] if tensor in producer]
        while wanted:
            op = producer[wanted.pop()]
            if op["index"] not in delegated:
                delegated.add(op["index"])
                wanted += [tensor for tensor in op["inputs"] if tensor in producer and tensor not in taken]
    return operations, delegated


def _named(kinds: Counter[str]) -> str:
    shown = [f"{number} {kind}" for kind, number in kinds.most_common(MOST_NAMED)]
    return ", ".join(shown) + (f" and {len(kinds) - MOST_NAMED} other kinds" if len(kinds) > MOST_NAMED else "")
