"""Comparing runs on the History page: the selection, its address, the differences."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.workload.spec import Target
from simulated.pages import keep, open_page, says, text_of, titles
from simulated.runs import make_run, planned

pytestmark = [pytest.mark.usefixtures("this_machine"), pytest.mark.pages]
TITLE, AGAINST = "{} runs compared: speed-up by batch size", "1 thread against 2 threads"


@pytest.mark.parametrize("count", [2, 3, 6])
def test_selected_runs_are_compared_on_one_chart_and_in_one_table(engine: Any, select: Any, count: int) -> None:
    ids = [keep(engine.store, make_run(seed)) for seed in range(1, count + 1)]
    at = open_page("history")
    select(at, *range(count))
    at.button(key="compare").click().run()
    assert titles(at) == [TITLE.format(count)]
    table = at.table[0].value
    assert list(table[""]) == [*"ABCDEF"[:count]]
    assert set(table["Targets"]) == {AGAINST}
    assert all("faster from batch" in verdict for verdict in table["Verdict"])
    assert [link.label for link in at.page_link if link.label.startswith("Open")] == [
        f"Open {letter}" for letter in "ABCDEF"[:count]
    ]
    assert "B against A: " in text_of(at)
    assert "Same network, " in text_of(at)
    assert not at.warning
    again = compared(*reversed(ids))  # another user at the same address
    assert at.query_params["compare"] in (again.query_params["compare"], *again.query_params["compare"])
    assert titles(again) == titles(at)
    again.button(key="all_studies").click().run()
    assert len(again.dataframe[0].value) == count


def test_a_comparison_is_shown_without_menus_and_a_list_is_not(engine: Any) -> None:
    ids = ",".join(keep(engine.store, make_run(seed)) for seed in (1, 2))
    at = open_page("history", embedded=True, compare=ids)
    assert titles(at) == [TITLE.format(2)]
    assert not at.button
    at = open_page("history", embedded=True)
    assert "an embedded view" in text_of(at)
    assert not at.dataframe
    assert not at.button


def compared(*runs: Any) -> AppTest:
    return open_page("history", compare=",".join(runs))


def test_what_differs_between_compared_runs_is_said(engine: Any) -> None:
    first = keep(engine.store, make_run(1))
    run = planned(make_run(2), targets=(Target(threads=1), Target(threads=2, execution="xla")))
    at = compared(keep(engine.store, run), first)
    says(at, "Different targets", f"A: {AGAINST}, XLA; B: {AGAINST}.")


def test_a_chosen_batch_stands_in_the_address_and_in_the_sentence(engine: Any) -> None:
    ids = ",".join(keep(engine.store, make_run(seed)) for seed in (1, 2))
    at = open_page("history", compare=ids)
    says(at, "crossover is at batch")
    at.selectbox(key="compare_at").select(8).run()
    assert at.query_params["at"] in ("8", ["8"])
    says(at, "at batch 8 the speed-up")
    says(open_page("history", compare=ids, at="64"), "at batch 64 the speed-up")


def test_a_run_without_rounds_is_left_out_of_a_comparison(engine: Any) -> None:
    ids = [keep(engine.store, make_run(seed)) for seed in (1, 2)]
    ids.append(keep(engine.store, make_run(3).model_copy(update={"rounds": (), "cells": ()})))
    at = compared(*ids)
    assert "seed 3” has" in at.warning[0].value
    assert titles(at) == [TITLE.format(2)]
    at = compared(*ids[1:])
    assert not titles(at)
    assert "Fewer than two" in text_of(at)


def test_an_address_may_name_what_is_not_here(engine: Any) -> None:
    at = compared("nowhere", "<b>x", keep(engine.store, make_run(1)))
    assert ["no run" in error.value for error in at.error] == [True, True]
    at = compared(*(keep(engine.store, make_run(seed)) for seed in range(2, 10)))
    assert "6 of 8" in text_of(at)


def test_more_than_six_runs_are_not_compared(engine: Any, select: Any) -> None:
    for seed in range(7):
        keep(engine.store, make_run(seed))
    at = open_page("history")
    select(at, *range(7))
    assert at.button(key="compare").disabled
    assert "7 rows selected" in text_of(at)
    assert at.button(key="delete").label == "Delete 7 rows"
