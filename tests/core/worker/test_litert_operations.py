"""Operations that a delegate took over are read from its inputs and outputs; those in int8 from their operands."""

from typing import Any

import numpy as np

from core.worker.litert.operations import in_int8, placement

FLOAT, INT = np.float32, np.int8


class Interpreter:
    """Interpreter with operations as (name, input tensors, output tensors, input types)."""

    def __init__(self, *operations: tuple[str, list[int], list[int], list[type]]) -> None:
        self._found = [
            {"index": i, "op_name": name, "inputs": np.array(taken), "outputs": np.array(given), "operand_types": types}
            for i, (name, taken, given, types) in enumerate(operations)
        ]

    def _get_ops_details(self) -> list[dict[str, Any]]:
        return self._found


ALL = Interpreter(
    ("QUANTIZE", [0], [4], [FLOAT]),
    ("FULLY_CONNECTED", [4, 1, -1], [5], [INT, INT]),
    ("FULLY_CONNECTED", [5, 2, -1], [6], [INT, INT]),
    ("DEQUANTIZE", [6], [7], [INT]),
    ("DELEGATE", [0, 1, 2], [7], [FLOAT, INT, INT]),
)
SOME = Interpreter(
    ("CONV_2D", [0, 1], [10], [INT, INT]),
    ("TANH", [10], [11], [INT]),
    ("CONV_2D", [11, 2], [12], [INT, INT]),
    ("NEG", [12], [13], [FLOAT]),
    ("DELEGATE", [0, 1], [10], [INT, INT]),
    ("DELEGATE", [11, 2], [12], [INT, INT]),
)


def test_all_operations_of_a_delegate() -> None:
    assert placement(ALL) == ("CPU (XNNPACK: 4 of 4 operations)",)
    assert in_int8(ALL) == "2 of 2 operations"


def test_operations_between_delegates_are_litert_s_own() -> None:
    assert placement(SOME) == ("CPU (XNNPACK: 2 of 4 operations)", "CPU (LiteRT's own kernels: 1 TANH, 1 NEG)")
    assert in_int8(SOME) == "3 of 4 operations; not 1 NEG"


def test_without_a_delegate_nothing_is_xnnpack_s() -> None:
    own = Interpreter(*(("OP" + str(i), [i], [i + 1], [FLOAT]) for i in range(6)))
    assert placement(own)[0] == "CPU (XNNPACK: 0 of 6 operations)"
    assert placement(own)[1].endswith("and 2 other kinds)")
