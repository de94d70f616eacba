"""Importing: accepted files, and refusal of everything else with one sentence."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.schema import UserError
from core.rounds.answer.analyse import analyse
from core.rounds.run import Run
from core.rounds.show import imports
from core.rounds.show.imports import read_run, run_name
from core.store import Store
from simulated.runs import make_run

HEADER = "target,batch,step_ms,round\n"
GOOD = HEADER + "a,1,0.5,0\nb,1,1.0,0\na,8,2.0,0\nb,8,1.5,0\na,1,0.6,1\nb,1,1.1,1\n"


def read_csv(text: str, name: str = "points.csv") -> Run:
    return read_run(text.encode(), name)


def refusal(data: bytes | str, name: str = "points.csv") -> str:
    with pytest.raises(ValueError, match=r"\S") as caught:
        read_run(data.encode() if isinstance(data, str) else data, name)
    assert type(caught.value) is UserError
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_csv_becomes_a_recorded_run() -> None:
    run = read_csv(GOOD, "../../etc/my <points>.csv")
    assert (run.label, run.status, run.plan, run.environment) == ("recorded", "finished", None, None)
    assert run.target_names == ("a", "b")
    assert run.name == "my <points>"
    assert [(r.batch, r.step_ms(0), r.step_ms(1)) for r in run.rounds] == [(1, 0.5, 1.0), (8, 2.0, 1.5), (1, 0.6, 1.1)]
    assert len(run.cells) == 4
    assert run.warnings == ()


def test_the_same_file_has_the_same_id() -> None:
    store = Store()
    assert store.add(read_csv(GOOD)) == store.add(read_csv(GOOD, "other.csv"))
    assert len(store.summaries()) == 1
    assert read_csv(GOOD).id != read_csv(GOOD.replace("0.5", "0.4")).id


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace(",", ";"),
        GOOD.replace(",", ";").replace(".", ","),
        GOOD.replace(",", "\t"),
        GOOD.replace("target,batch", " Target , BATCH "),
        GOOD.replace("\n", "\n\n"),
    ],
)
def test_what_spreadsheets_write_is_read_alike(text: str) -> None:
    assert read_csv(text).rounds == read_csv(GOOD).rounds


def test_columns_may_stand_in_any_order() -> None:
    lines = [line.split(",") for line in GOOD.splitlines()]
    text = "\n".join(",".join((r, ms, t, b)) for t, b, ms, r in lines)
    assert read_csv(text).rounds == read_csv(GOOD).rounds


def test_targets_with_commas_stand_in_quotes() -> None:
    run = read_csv('target,batch,step_ms\n"cpu,threads=1",1,2\n"cpu,threads=2",1,3\n')
    assert run.target_names == ("cpu,threads=1", "cpu,threads=2")


def test_one_value_a_batch_needs_no_round_and_no_warning() -> None:
    run = read_csv("target,batch,step_ms\na,1,1\nb,1,2\na,2,2\nb,2,1\n")
    assert [len(r.blocks) for r in run.rounds] == [2, 2]
    assert run.warnings == ()
    verdict = analyse(run).verdict
    assert verdict.kind == "crossover"
    assert (verdict.crossovers[0].low, verdict.crossovers[0].high) == (None, None)


def test_repeats_without_a_round_are_paired_in_file_order_and_said() -> None:
    run = read_csv("target,batch,step_ms\na,1,1\na,1,2\na,1,3\nb,1,10\nb,1,20\n")
    assert [(r.step_ms(0), r.step_ms(1)) for r in run.rounds] == [(1, 10), (2, 20), (3, None)]
    assert [w.code for w in run.warnings] == ["paired_in_file_order"]


def test_a_round_with_one_target_is_kept() -> None:
    run = read_csv(HEADER + "a,1,1,0\nb,1,2,0\na,1,3,1\n")
    assert [len(r.blocks) for r in run.rounds] == [2, 1]


def test_rounds_numbered_anew_for_each_batch_are_paired_within_it() -> None:
    run = read_csv(HEADER + "a,1,1,0\na,2,2,0\nb,1,3,0\nb,2,4,0\n")
    assert [(r.index, r.batch, r.step_ms(0), r.step_ms(1)) for r in run.rounds] == [(0, 1, 1, 3), (1, 2, 2, 4)]


def test_unknown_columns_are_named_in_a_warning() -> None:
    run = read_csv("target,batch,step_ms,colour\na,1,1,red\nb,1,2,blue\n")
    assert [(w.code, "colour" in w.text) for w in run.warnings] == [("columns_ignored", True)]


def test_labels_are_never_raised() -> None:
    text = "target,batch,step_ms,label\na,1,1,{}\nb,1,2,{}\n"
    assert read_csv(text.format("measured", "measured")).label == "recorded"
    assert read_csv(text.format("modelled", "modelled")).label == "modelled"
    assert "mixes" in refusal(text.format("modelled", "measured"))
    assert "accepted are measured" in refusal(text.format("guessed", "guessed"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty", "target, batch, step_ms"]),
        (" \n\n", ["empty"]),
        (HEADER, ["no rows"]),
        ("target,batch\na,1\n", ["Line 1", "step_ms", "accepted"]),
        ("batch,batch,target,step_ms\n1,1,a,1\n", ["Line 1", "batch twice"]),
        (HEADER + "a,1,nan,0\n", ["Line 2", "step_ms", "“nan”", "finite"]),
        (HEADER + "a,1,inf,0\n", ["Line 2", "finite"]),
        (HEADER + "a,1,1_0,0\n", ["Line 2", "finite"]),
        (HEADER + "a,1,1,0\nb,1,-2,0\n", ["Line 3", "-2", "positive"]),
        (HEADER + "a,1,0,0\n", ["Line 2", "positive"]),
        (HEADER + "a,1.5,1,0\n", ["Line 2", "batch", "1.5", "whole numbers 1 to 65,536"]),
        (HEADER + "a,0,1,0\n", ["Line 2", "batch"]),
        (HEADER + "a,65537,1,0\n", ["Line 2", "65,536"]),
        (HEADER + "a,1,1,\n", ["Line 2", "round"]),
        (HEADER + "a,1,1,0,9\n", ["Line 2", "5 values", "4 columns"]),
        (HEADER + "a,1,1\n", ["Line 2", "3 values"]),
        (HEADER + ",1,1,0\n", ["Line 2", "target"]),
        (HEADER + "".join(f"{name},1,1,0\n" for name in "abcdefg"), ["7 targets", "at most 6"]),
        (HEADER + "a,1,1,0\nb,1,1,0\na,1,2,0\n", ["Line 4", "repeats", "batch 1", "round 0"]),
        (HEADER + 'a,1,"1,0\n', ["not valid CSV"]),
        ("target,batch,step_ms\ncpu,threads=1,1,2\n", ["quotes"]),
        ("target,batch,step_ms\né,1,1\n".encode("latin-1"), ["UTF-8"]),
        ("target,batch,step_ms\n".encode("utf-16"), ["UTF-8"]),
        (b"\x89PNG\r\n\x1a\n", ["The file is a PNG picture, whatever its name; accepted"]),
    ],
)
def test_bad_csv_is_refused_with_its_line(text: str | bytes, words: list[str]) -> None:
    message = refusal(text)
    for word in words:
        assert word in message


def test_too_many_rows_and_too_large_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "MAX_ROWS", 3)
    assert "than 3 rows" in refusal(GOOD)
    assert "100 MB" in refusal(b"x" * 100_000_000)
    assert "100 MB" in refusal(b"x" * 100_000_000, "run.json")


@pytest.mark.parametrize("sizes", [1000, 1001])
def test_more_than_a_thousand_batch_sizes_are_refused(sizes: int) -> None:
    points = HEADER + "".join(f"{target},{batch},1,0\n" for batch in range(1, sizes + 1) for target in "ab")
    cells = [{"target": 0, "batch": batch, "outcome": "measured"} for batch in range(1, sizes + 1)]
    for data, name in ((points.encode(), "points.csv"), (changed(cells=cells), "run.json")):
        if sizes <= 1000:
            assert len({cell.batch for cell in read_run(data, name).cells}) == sizes
        else:
            assert re.search("(than|most) 1,000", refusal(data, name))


def test_json_comes_back_as_it_was() -> None:
    run = make_run(with_failures=True, label="measured")
    assert read_run(run.to_json().encode(), "run.json") == run
    assert read_run(b"\xef\xbb\xbf" + run.to_json(indent=2).encode(), "upload") == run


def changed(**changes: object) -> bytes:
    return json.dumps(json.loads(make_run(batches=(1, 2)).to_json()) | changes).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", ["not valid JSON"]),
        (b"[]", ["schema_version"]),
        (b"{}", ["schema_version"]),
        (b'{"a": ' + b"[" * 100_000, ["not valid JSON"]),
        (changed(schema_version=2), ["schema version 2", "reads version 1"]),
        (changed(surprise=1), ["surprise", "Extra inputs are not permitted"]),
        (changed(id="../../x"), ["id"]),
        (changed(label="true"), ["label"]),
        (changed(target_names=[]), ["target_names"]),
        (changed(target_names=["a", "b", "c"]), ["3 names", "2 targets"]),
        (changed(plan=None, cells=[{"target": 3, "batch": 1, "outcome": "error"}]), ["target 3 has no name"]),
        (changed(target_names=["a", "a"]), ["different names"]),
        (changed(rounds=[{"index": 0, "batch": 1, "blocks": []}]), ["rounds.0.blocks"]),
    ],
)
def test_bad_json_is_refused(data: bytes, words: list[str]) -> None:
    message = refusal(data, "run.json")
    for word in words:
        assert word in message


def test_json_that_contradicts_itself_is_refused() -> None:
    run = make_run(batches=(1, 2))
    first = run.rounds[0]
    twice = first.model_copy(update={"blocks": (first.blocks[0], first.blocks[0])})
    for update, words in (
        ({"rounds": (first, first)}, "round 0 twice"),
        ({"rounds": (twice,)}, "in round 0 twice"),
        ({"cells": (run.cells[0], run.cells[0])}, "cell of target 0 at batch 1 twice"),
        ({"rounds": (first.model_copy(update={"batch": 10**7}),)}, "65,536"),
        ({"rounds": (first.model_copy(update={"index": 10**10}),)}, "at most 1,000,000,000"),
    ):
        assert words in refusal(run.model_copy(update=update).to_json(), "run.json")


def test_names_are_for_showing_only() -> None:
    assert run_name("..\\..\\secret\x00file.v2.csv") == "secret file.v2"
    assert run_name("a/b/\n") == "Imported run"
    assert len(run_name("x" * 5000 + ".csv")) == 100


CSV_PIECE = st.sampled_from(
    [*"ab,;\t\n\r\"'.-=0189 ", "target", "batch", "step_ms", "round", "nan", "1e9", "\x00", "é"]
)


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=400), st.lists(CSV_PIECE, max_size=60).map(lambda p: "".join(p).encode())))
def test_any_bytes_are_a_run_or_a_sentence(data: bytes) -> None:
    for name in ("x.csv", "x.json", "x"):
        _accept_or_refuse(data, name)


@settings(max_examples=300)
@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "1", "2", "0.5", "", "-1", "nan", "9" * 30])] * 4), max_size=8))
def test_any_rows_are_a_run_or_a_sentence(rows: list[tuple[str, ...]]) -> None:
    _accept_or_refuse((HEADER + "".join(",".join(row) + "\n" for row in rows)).encode(), "x.csv")


LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
FIELD = st.sampled_from(sorted(Run.model_fields))


@settings(max_examples=200)
@given(st.dictionaries(FIELD, st.one_of(LEAF, st.lists(LEAF, max_size=3), st.dictionaries(st.text(max_size=5), LEAF))))
def test_any_change_of_a_run_is_a_run_or_a_sentence(changes: dict[str, object]) -> None:
    _accept_or_refuse(changed(**changes), "x.json")


def _accept_or_refuse(data: bytes, name: str) -> None:
    try:
        run = read_run(data, name)
    except ValueError:
        refusal(data, name)
        return
    assert read_run(run.to_json().encode(), "again.json") == run
