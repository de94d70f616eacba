"""Workers lost while they measure leave one warning for each target and cause."""

from core.studies.runner import Losses


def test_one_warning_for_each_target_and_cause() -> None:
    losses = Losses()
    first = losses.add("gpu:0", "batch 32", "An illegal address.", "1_32")
    again = losses.add("gpu:0", "batch 64", "An illegal address.", "1_64")
    other = losses.add("gpu:0", "batch 64", "ECC.", "1_64")
    assert first.text == "The worker of gpu:0 was lost, at batch 32: An illegal address."
    assert again.text == "The worker of gpu:0 was lost twice, at batch 32, batch 64: An illegal address."
    assert first.code == again.code != other.code
    assert losses.warnings == (again, other)
