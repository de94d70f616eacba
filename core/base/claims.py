"""Table of every claim the product can make, each with the statistical test behind it.

Figures without an interval, recorded facts and modelled values shown as such make no claim.

:func:`document` generates docs/claims.md from this table; a test keeps the two in step.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Basis(NamedTuple):
    """Wording of a claim, the test behind it, and the set over which its 95 % hold jointly."""

    reads: str
    test: str
    family: str


REPLICATES = "t test over replicates"
LOOKS = "batches and looks"


HEADING = """# What Breakeven claims

Everything it can claim, by code, with the test behind it. Each claim holds at 95 % together with all that the last
column names. What has no interval claims nothing. `core.base.claims` gives
this page, and a test holds it to that.

A replicate is a batch prepared anew in another start of the workers. The variance between replicates is the largest of
the batch's own, of the one pooled over batches along its trend, and of what the scatter of rounds makes; fewer than
three replicates carry an allowance. A look is every time that growing data may change a claim: look k
spends 5 % / (k (k + 1)). Batches and looks share the error by Bonferroni's rule where no other is named.

| code | reads | test | holds together over |
| --- | --- | --- | --- |"""


class Claim(StrEnum):
    """A code of a claim, as ``--json`` lists them under ``claims``."""

    CROSSOVER = "crossover"
    AHEAD = "ahead"
    AHEAD_IN_PART = "ahead_in_part"
    LEAD = "lead"
    EQUIVALENT = "equivalent"
    FASTEST = "fastest"
    FIXED_COST = "fixed_cost"
    LOOP_COST = "loop_cost"
    BEST_SPLIT = "best_split"
    OCCASIONS_AGREE = "occasions_agree"
    RUNS_DIFFER = "runs_differ"
    SLOWER = "slower"
    CHEAPER = "cheaper"
    REMEDY_HELPS = "remedy_helps"
    INPUT_BOUND = "input_bound"
    FRONTIER = "frontier"
    EFFICIENCY = "efficiency"
    FASTEST_MACHINE = "fastest_machine"
    MODELLED_AHEAD = "modelled_ahead"
    COMMON_FACTOR = "common_factor"
    NOISE_SCALE = "noise_scale"
    CHECK_HOLDS = "check_holds"

    @property
    def basis(self) -> Basis:
        """Return the test behind the claim."""
        return BASES[self]


BASES: dict[Claim, Basis] = {
    Claim.CROSSOVER: Basis(
        "B is faster from batch 41, 95 % interval 32 to 50",
        f"{REPLICATES}: a clear batch on each side, a third change only with two on each side; the interval "
        "holds every batch at which a tie is not rejected",
        LOOKS,
    ),
    Claim.AHEAD: Basis(
        "A is faster at every batch size measured",
        f"{REPLICATES}: one batch is clear with all together, and each other by itself in turn from there",
        LOOKS,
    ),
    Claim.AHEAD_IN_PART: Basis("A is faster up to batch 64; above that not clear", REPLICATES, LOOKS),
    Claim.LEAD: Basis(
        "A is at least 5 % faster from batch 60 (48 to 75)",
        f"{REPLICATES} against the margin: the largest batch is clear with all together",
        LOOKS,
    ),
    Claim.EQUIVALENT: Basis(
        "A and B are within 5 % of each other at every batch size measured",
        "two one-sided t tests over replicates, all of them rejected (intersection-union, Berger 1982)",
        "looks",
    ),
    Claim.FASTEST: Basis(
        "A is the fastest up to batch 12 (9 to 15); B from 12 on",
        f"{REPLICATES} against every rival (Gutmann and Maymin 1987; Hsu 1981)",
        "targets, batches (Holm 1979) and looks",
    ),
    Claim.FIXED_COST: Basis(
        "A step costs 0.5 ms (0.4 to 0.6) and 2 µs per sample", "interval of the fit over starts", "the target"
    ),
    Claim.LOOP_COST: Basis("fit adds 0.2 ms (0.1 to 0.3)", "order statistics of paired differences", "one process"),
    Claim.BEST_SPLIT: Basis(
        "the best split is at most 1.4 times (1.2 to 1.6) as fast",
        f"{REPLICATES}, maximum of minima (intersection-union, Berger 1982)",
        "batches (Bonferroni) for the lower bound",
    ),
    Claim.OCCASIONS_AGREE: Basis("the runs differ more than their intervals allow", "Cochran's Q", "the runs compared"),
    Claim.RUNS_DIFFER: Basis(
        "the crossover is at 40 instead of 60 (clear)", "MOVER (Zou and Donner 2008) on logarithms", "each pair of runs"
    ),
    Claim.SLOWER: Basis("the step became 12 % slower (8 to 16)", REPLICATES, "batches and their mean (Bonferroni)"),
    Claim.CHEAPER: Basis(
        "a sample is cheaper on B from batch 90 (70 to 120)", f"{REPLICATES}, moved by the prices", LOOKS
    ),
    Claim.REMEDY_HELPS: Basis(
        "a larger batch helps: 1.4 times (1.3 to 1.5) as fast", REPLICATES, "remedies (Bonferroni)"
    ),
    Claim.INPUT_BOUND: Basis("40 % of the step (30 to 50) waits for input", REPLICATES, "the arm that was chosen"),
    Claim.FRONTIER: Basis(
        "the GPU is clearly faster at 30 % of the map's settings",
        "posterior of the surface, its largest deviation over the map",
        "all settings of the map",
    ),
    Claim.EFFICIENCY: Basis("2 GPUs are 1.7 times (1.6 to 1.8) as fast as one", REPLICATES, LOOKS),
    Claim.FASTEST_MACHINE: Basis(
        "machine 3 is the fastest from batch 64 on",
        "Welch's t over replicates, unpaired (Gutmann and Maymin 1987; Hsu 1981)",
        "machines and batches (Holm 1979)",
    ),
    Claim.MODELLED_AHEAD: Basis(
        "a T4 is clearly faster from batch 24 on (modelled)",
        "interval of the model's error on steps held out, with the CPU's own interval",
        "each card and batch",
    ),
    Claim.COMMON_FACTOR: Basis(
        "steps take 1.5 times (1.4 to 1.6) what was predicted", "Student's t over the networks' means", "the validation"
    ),
    Claim.NOISE_SCALE: Basis("the gradient noise scale is 861 (640 to 1,100)", "bootstrap of draws", "the study"),
    Claim.CHECK_HOLDS: Basis(
        "a block is as long as the barest loop's", "order statistics of the median ratio against bounds", "each check"
    ),
}


def document() -> str:
    """Return docs/claims.md."""
    rows = [f"| `{claim}` | {basis.reads} | {basis.test} | {basis.family} |" for claim, basis in BASES.items()]
    return "\n".join((HEADING, *rows, ""))
