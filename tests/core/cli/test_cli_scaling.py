"""``scaling``: a whole study on simulated workers, its text and JSON, and refusals."""

import pytest

from core.studies.scaling.record import ScalingStudy
from simulated.commands import Command, as_json, done, holds, refused
from simulated.simulation import Machine

SHORT = ("scaling", "--preset", "784-128-10", "--targets", "cpu", "cpu:2", "--budget", 60)


@pytest.mark.usefixtures("machine")
def test_a_try_out_says_what_it_is_worth_first(cli: Command) -> None:
    out, err = done(cli(*SHORT, "--batches", "8:512"))
    assert out.startswith("Logical CPUs share")
    holds(out, "faster from batch", "strong efficiency", "times are measured:")
    holds(err, "7 batch sizes: ", "2 logical CPUs", "shows no speed")


@pytest.mark.usefixtures("machine")
def test_json_has_exactly_the_promised_keys(cli: Command) -> None:
    data = as_json(cli(*SHORT, "--batches", "8,16", "--no-trace", "--json"))
    assert list(data) == [
        "headline", "label", "verdict", "tried_out", "efficiency", "reasons", "remedies", "several", "record",
    ]  # fmt: skip
    assert data["tried_out"] is True
    study = ScalingStudy.from_data(data["record"])
    assert study.plan.batches == (8, 16)
    assert study.traces == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "A scaling study needs two devices, and this machine has no GPU."),
        (("--targets", "cpu:2", "cpu"), "the first target is one device, such as cpu; “cpu:2” has several"),
        (("--targets", "cpu", "cpu,threads=2"), "has more devices than the one before it"),
        (("--targets", "cpu", "cpu:3", "--batches", "8,16"), "no batch size is a multiple of 3"),
        (("--targets", "cpu", "cpu:2", "--budget", "5"), "between 10 and 86,400 seconds"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    cli: Command, machine: Machine, arguments: tuple[str, ...], says: str
) -> None:
    assert says in refused(cli("scaling", "--preset", "784-128-10", *arguments))
    assert machine.starts == 0
