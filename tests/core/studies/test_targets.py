"""Every kind states where it measures, the basis of refusals and of the search for neighbours."""

import pytest

from core.studies.registry import kind_of, kinds
from core.studies.sweep.trace import TRACE, CellToTrace
from simulated.kinds import GPU, cases
from simulated.runs import make_run, on_card

RUN = on_card(make_run())


def test_every_kind_has_a_case() -> None:
    assert set(cases()) == set(kinds())


@pytest.mark.parametrize("kind", sorted(cases()))
def test_every_kind_says_where_it_measures(kind: str) -> None:
    case = cases()[kind]
    assert tuple(target for target in kind_of(kind).targets(case.on_gpu()) if target.is_gpu) == case.gpus


def test_a_trace_is_of_one_target() -> None:
    assert TRACE.targets(CellToTrace(RUN, 1, 8)) == (GPU,)
    assert not any(target.is_gpu for target in TRACE.targets(CellToTrace(RUN, 0, 8)))
