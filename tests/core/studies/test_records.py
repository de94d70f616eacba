"""Records of every kind survive JSON unchanged, and anything else is refused with one sentence."""

import json
from typing import Any

import pytest

from core.base.schema import UserError
from core.rounds.study import Record
from core.studies.experiment.record import Experiment
from core.studies.registry import kinds, load_example
from simulated.kinds import cases

RECORDS: dict[str, Record] = {name: load_example(name) or case.study() for name, case in cases().items()}
CHANGED = {"rounds": 1, "experiment": 1, "plan": 1, "sweeps": 1, "capture": 1}
NO_RECORDS = ["", "nonsense", "[]", "null", "{}", '{"schema_version": 1}', '{"a": NaN}', "[" * 10]


def test_every_kind_has_a_record_here() -> None:
    assert RECORDS.keys() == kinds().keys()
    assert isinstance(RECORDS["pipeline"], Experiment)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_reads_back_unchanged(name: str) -> None:
    record = RECORDS[name]
    assert type(record).from_json(record.to_json()) == record
    assert type(record).from_json(record.to_json(indent=1).encode()) == record


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("change", [{"schema_version": 2}, {"surprise": 1}, CHANGED])
def test_a_changed_record_is_refused_with_the_place(name: str, change: dict[str, Any]) -> None:
    record = RECORDS[name]
    known = {key: value for key, value in change.items() if key in type(record).model_fields or len(change) == 1}
    refused = rf"^This is no Breakeven {record.noun} of schema version 1: ({'|'.join(known)}).*\.$"
    with pytest.raises(UserError, match=refused) as caught:
        type(record).from_json(json.dumps(json.loads(record.to_json()) | known))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("text", NO_RECORDS)
def test_what_is_no_record_is_refused(name: str, text: str) -> None:
    record = RECORDS[name]
    with pytest.raises(UserError, match=rf"Breakeven {record.noun} of"):
        type(record).from_json(text)
