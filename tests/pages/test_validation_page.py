"""A validation's file is imported on History and shown on Hardware: verdict, picture, table, and its file again."""

import json
from typing import Any

import pytest

from core.studies.kind import Context
from core.studies.registry import read_any
from core.studies.validation.answer import validation
from core.studies.validation.export import COLUMNS, factor_sentence, inside_sentence
from core.studies.validation.kind import VALIDATION
from core.studies.validation.record import NETWORKS
from core.studies.validation.run import new_study
from core.ui.hardware.validation import TITLE
from simulated.pages import open_page, says, text_of, titles, unfold
from simulated.validations import made_validation, plan
from tests.support.study_pages import keep

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]
PICTURE = "Measured over predicted step time"


def test_its_file_is_imported_on_history_and_opens_on_hardware(engine: Any) -> None:
    study = made_validation(1.5)
    found = validation(study)
    text = json.dumps(VALIDATION.export(study, found, Context()))
    at = open_page("history")
    at.file_uploader[0].upload("validation.json", text.encode())
    at.run()
    (summary,) = engine.store.summaries("validation")
    assert summary.label == "recorded"
    kept = engine.store.study(VALIDATION, summary.id)
    assert kept == study.model_copy(update={"label": "recorded"})
    opened = open_page("hardware", validation=summary.id)
    says(opened, inside_sentence(found.first), factor_sentence(found.first), "(simulated)", "recorded")
    assert PICTURE in titles(opened)
    (table,) = [frame.value for frame in opened.dataframe if "over predicted" in frame.value]
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 40
    assert set(table["network"]) == set(NETWORKS)
    assert list(table["over predicted"]) == [one.factor for one in found.steps]
    assert read_any(json.dumps(VALIDATION.export(kept, found, Context())))[1] == kept


def test_without_an_address_it_is_folded_and_without_a_validation_not_there(engine: Any) -> None:
    assert TITLE not in [part.label for part in open_page("hardware").expander]
    keep(engine, "validation")
    at = open_page("hardware")
    assert TITLE in [part.label for part in at.expander]
    assert PICTURE not in titles(at)
    unfold(at, TITLE)
    assert PICTURE in titles(at)
    assert not engine.jobs.started


def test_predictions_alone_say_why_there_is_no_picture(engine: Any) -> None:
    study_id = keep(engine, "validation", new_study(plan()))
    at = open_page("hardware", validation=study_id)
    assert "No predicted step" in text_of(at)
    assert PICTURE not in titles(at)


def test_one_that_is_not_here_is_said(engine: Any) -> None:
    assert engine
    assert "no such validation" in text_of(open_page("hardware", validation="20260101-gone00"))
