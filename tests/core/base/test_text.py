"""Cleaning of foreign text before it is shown."""

import json
import sys

import pytest

from core.base.text import clean, escaped_json, in_lines, sentence_case, shown
from tests.support.hostile import ACTING, HOSTILE


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("GTX 1080 “été” · 日本 😀", "GTX 1080 “été” · 日本 😀"),
        ("a\x1b[31mred\x1b]0;title\x07", "a?[31mred?]0;title?"),
        ("a\nb\r\nc\td\x0b\x85\u2028\u2029e", "a b  c d    e"),
        ("\x9b31m\x7f\x00", "?31m??"),
        ("\u202egnp.exe\u2066\u200f\ufeff\u200b", "?gnp.exe????"),
        ("a\udc80b", "a?b"),
    ],
)
def test_what_acts_on_a_terminal_is_not_shown(text, left):
    assert clean(text) == left


def test_every_character_is_shown_or_replaced_by_one_that_can_be():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert clean(every).isprintable()
    assert len(clean(every)) == len(every)
    assert not set(clean(HOSTILE)) & set(ACTING)


def test_a_break_within_a_line_makes_no_line():
    assert in_lines(["Verdict", "a\nVerdict:"]) == "Verdict\na Verdict:"


def test_a_long_path_keeps_its_end():
    assert shown("/a\x07/" + "b" * 200 + "/run.json").endswith("bbb/run.json")
    assert len(shown("b" * 5000)) == 120


def test_json_keeps_its_values_and_holds_no_character_that_acts():
    text = json.dumps({HOSTILE: [HOSTILE, "été"]}, ensure_ascii=False, indent=1)
    assert json.loads(escaped_json(text)) == json.loads(text)
    assert not set(escaped_json(text)) & set(ACTING) - {"\n"}
    assert "été" in escaped_json(text)


def test_a_sentence_starts_with_a_capital_and_keeps_the_rest():
    assert [sentence_case(text) for text in ("all threads, XLA", "1 thread", "")] == [
        "All threads, XLA",
        "1 thread",
        "",
    ]
