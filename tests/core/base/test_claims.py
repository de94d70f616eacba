"""Every claim has its test, in the table and in the documents, and answers claim nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.claims import BASES, Claim, document
from core.rounds.answer.analyse import analyse
from core.rounds.answer.answer import CLAIMS_BY_KIND, CLAIMS_BY_REASON, Answer, Band, Boundary, Fastest, Lead, Verdict
from core.rounds.run import Run
from tests.support.points import NAMES, run_of, run_of_steps

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "core" / "data" / "example.json"


def verdict(kind: Any, reason: str = "", lead: bool = False) -> Verdict:
    pair = NAMES[:2]
    return Verdict(kind, pair, reason, "", lead=Lead(pair[0], 0.05, 1.0, None, None) if lead else None)


def test_every_claim_has_its_basis_and_no_two_read_alike() -> None:
    assert list(BASES) == list(Claim)
    assert len({claim.basis.reads for claim in Claim}) == len(Claim)
    assert all(all(claim.basis) for claim in Claim)


def test_the_document_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "claims.md").read_text(encoding="utf-8") == document()
    assert all(f"| `{claim.value}` | {claim.basis.reads} |" in document() for claim in Claim)


def test_the_rules_of_measurement_lead_to_it() -> None:
    assert "claims.md" in (ROOT / "docs" / "method.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "reason", "claims"),
    [
        ("crossover", "sign_change", (Claim.CROSSOVER,)),
        ("ahead", "ahead_throughout", (Claim.AHEAD,)),
        ("tie", "within_margin", (Claim.EQUIVALENT,)),
        ("inconclusive", "straddles_at_largest", (Claim.AHEAD_IN_PART,)),
        ("inconclusive", "straddles_at_smallest", (Claim.AHEAD_IN_PART,)),
        ("inconclusive", "straddles_within", (Claim.AHEAD_IN_PART,)),
        ("inconclusive", "straddles", ()),
        ("inconclusive", "many_changes", ()),
        ("inconclusive", "unstable_machine", ()),
        ("inconclusive", "no_common_batch", ()),
        ("single", "floor_and_slope", (Claim.FIXED_COST,)),
        ("single", "too_few_batches", ()),
        ("crossover", "sign_change_without_replicates", ()),
        ("ahead", "ahead_throughout_without_replicates", ()),
        ("ahead", "unpaired_no_interval", ()),
    ],
)
def test_what_a_verdict_claims(kind: str, reason: str, claims: tuple[Claim, ...]) -> None:
    assert verdict(kind, reason).claims == claims
    assert set(claims) <= {*CLAIMS_BY_KIND.values(), *CLAIMS_BY_REASON.values()}


def test_a_lead_is_a_claim_of_its_own_where_there_is_an_interval() -> None:
    assert verdict("ahead", "ahead_throughout", lead=True).claims == (Claim.AHEAD, Claim.LEAD)
    assert verdict("ahead", "ahead_throughout_without_replicates", lead=True).claims == ()


@pytest.mark.parametrize(
    ("ratio", "noise", "claims"),
    [
        (lambda batch: 0.5 * batch**0.35, 0.01, (Claim.CROSSOVER, Claim.LEAD)),
        (lambda _: 1.5, 0.01, (Claim.AHEAD, Claim.LEAD)),
        (lambda _: 1.02, 0.001, (Claim.AHEAD,)),
        (lambda _: 1.0, 0.01, (Claim.EQUIVALENT,)),
        (lambda batch: 1.0 if batch > 8 else 0.7, 0.1, (Claim.AHEAD_IN_PART,)),
        (lambda _: 1.0, 0.3, ()),
    ],
)
def test_what_a_run_of_two_targets_claims(ratio: Any, noise: float, claims: tuple[Claim, ...]) -> None:
    assert analyse(run_of(ratio, noise=noise, process_noise=noise / 2)).claims == claims


def test_what_runs_of_one_and_of_three_targets_claim() -> None:
    steps = (lambda b: 0.2 + 0.02 * b, lambda b: 0.6 + 0.004 * b, lambda b: 2.0 + 0.02 * b)
    batches = tuple(2**i for i in range(9))
    assert analyse(run_of_steps(steps[:1], batches)).claims == (Claim.FIXED_COST,)
    assert Claim.FASTEST in analyse(run_of_steps(steps, batches)).claims
    alike = analyse(run_of_steps(steps[:1] * 3, batches, noise=0.3))
    assert alike.claims == ()


def test_bands_claim_something_only_with_an_interval_and_where_one_target_is_out() -> None:
    whole = Verdict("fastest", NAMES[:3], "bands", "")
    boundary = Boundary(8.0, 6.0, 10.0, (0,), (1, 2))
    fastest = Fastest((Band(1.0, 8.0, (0,)), Band(8.0, 64.0, (1, 2))), (boundary,))
    answer = Answer(whole, (), (), (), fastest)
    assert answer.claims == (Claim.FASTEST,), "each once"
    assert replace(answer, fastest=replace(fastest, has_interval=False)).claims == ()
    assert replace(answer, fastest=Fastest((Band(1.0, 64.0, (0, 1, 2)),), ())).claims == ()


def test_the_shipped_example_decides_something() -> None:
    assert analyse(Run.from_json(EXAMPLE.read_text(encoding="utf-8"))).claims
