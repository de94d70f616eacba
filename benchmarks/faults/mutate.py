"""Random mutations of valid input: of bytes, of JSON, of lines; some leave the meaning unchanged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

CONTROL = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "a\x00b", "line\nline", "\r over", "\u202egnp.exe", "\u2028",
    "\x7f", "\x08\x08",
)  # fmt: skip
MARKUP = (
    "<script>alert(1)</script>", "![x](http://127.0.0.1/x.png)", "[x](javascript:alert(1))", "=cmd|' /C calc'!A0",
    "$x$ `y` **z**", '"><img src=x onerror=alert(1)>', "{{7*7}}", "%s%n", "../../etc/passwd",
)  # fmt: skip
LONG = ("x" * 5_000, "é" * 300, "\U0001f600" * 100, " " * 1_000)
TEXTS = ("", " ", "null", "NaN", "1e400", "-0", "0x10", "٣", "1_000", "True", *CONTROL, *MARKUP, *LONG)
NUMBERS = (
    0, -1, 1, 2, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**19, 10**40, 0.0, -0.0, 1e-320, 1e-9, 0.5,
    -1.5, 1e9, 1e18, 1e308, 1.7976931348623157e308, 5e-324,
)  # fmt: skip
ODD_BYTES = (
    b"\x00",
    b"\xff",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x1a",
    b"\r",
    b'"',
    b"{",
    b"[",
    b",",
    b"\xed\xa0\x80",
    b"\x1b[2J",
)


def bytes_of(data: bytes, random_: random.Random) -> bytes:
    """Return the data with one to eight random changes."""
    made = bytearray(data)
    for _ in range(random_.choice((1, 1, 1, 2, 4, 8))):
        random_.choice(_BYTES)(made, random_)
    return bytes(made)


def _place(made: bytearray, random_: random.Random) -> int:
    head = random_.random() < 0.3  # headers matter more than what follows
    return random_.randrange(max(1, min(64, len(made)) if head else len(made)))


def _flip(made: bytearray, random_: random.Random) -> None:
    if made:
        made[_place(made, random_) % len(made)] ^= 1 << random_.randrange(8)


def _replace(made: bytearray, random_: random.Random) -> None:
    at = _place(made, random_)
    made[at : at + random_.choice((1, 2, 8))] = random_.randbytes(random_.choice((1, 2, 8)))


def _remove(made: bytearray, random_: random.Random) -> None:
    at = _place(made, random_)
    del made[at : at + random_.choice((1, 4, 64, 1024))]


def _truncate(made: bytearray, random_: random.Random) -> None:
    del made[_place(made, random_) :]


def _repeat(made: bytearray, random_: random.Random) -> None:
    at = _place(made, random_)
    made[at:at] = made[at : at + random_.choice((1, 16, 256))] * random_.choice((2, 20))


def _odd(made: bytearray, random_: random.Random) -> None:
    at = _place(made, random_)
    made[at:at] = random_.choice(ODD_BYTES)


def _extreme(made: bytearray, random_: random.Random) -> None:
    size = random_.choice((1, 2, 4, 8))
    at = _place(made, random_)
    made[at : at + size] = random_.choice((b"\xff" * size, b"\x00" * size, b"\x7f" + b"\xff" * (size - 1)))


_BYTES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _replace, _remove, _truncate, _repeat, _odd, _extreme,
)  # fmt: skip


def json_of(value: Any, random_: random.Random) -> str:
    """Return the value as JSON text with one to four nodes changed; Python would not write some of it."""
    made = json.loads(json.dumps(value))
    for _ in range(random_.choice((1, 1, 1, 2, 4))):
        made = _changed(made, random_)
    text = json.dumps(made, ensure_ascii=random_.random() < 0.5)
    if random_.random() < 0.05:
        text = text.replace(": 1", f": {random_.choice(('NaN', 'Infinity', '-Infinity', '1e999', '01', '+1'))}", 1)
    if random_.random() < 0.03:
        text = text.replace("{", '{"schema_version": 1, ', 1)
    return text


def _changed(value: Any, random_: random.Random) -> Any:
    """Return the value with one random node changed; deeper nodes are chosen in proportion to their number."""
    if isinstance(value, dict) and value and random_.random() < 0.9:
        key = random_.choice(list(value))
        return _in_dict(value, key, random_)
    if isinstance(value, list) and value and random_.random() < 0.85:
        at = random_.randrange(len(value))
        return _in_list(value, at, random_)
    return node(value, random_)


def _in_dict(value: dict[str, Any], key: str, random_: random.Random) -> dict[str, Any]:
    way = random_.random()
    if way < 0.06:
        return {name: part for name, part in value.items() if name != key}
    if way < 0.10:
        return value | {random_.choice((*CONTROL, *MARKUP, "surprise", "", "__proto__")): 1}
    if way < 0.13:
        return {name if name != key else random_.choice((*CONTROL, "")): part for name, part in value.items()}
    return value | {key: _changed(value[key], random_)}


def _in_list(value: list[Any], at: int, random_: random.Random) -> list[Any]:
    way = random_.random()
    if way < 0.08:
        return value[:at] + value[at + 1 :]
    if way < 0.16:
        return value[:at] + [value[at]] * random_.choice((2, 3, 100)) + value[at + 1 :]
    if way < 0.20:
        return list(reversed(value))
    return [*value[:at], _changed(value[at], random_), *value[at + 1 :]]


def node(value: Any, random_: random.Random) -> Any:
    """Return a replacement for a value, of the same type or another."""
    same = random_.random() < 0.6
    if isinstance(value, bool) or value is None or not same:
        return random_.choice(
            (None, True, False, [], {}, [[]], {"": None}, "", 0, deep(random_), random_.choice(NUMBERS))
        )
    if isinstance(value, str):
        return random_.choice(TEXTS) if random_.random() < 0.7 else value + random_.choice(CONTROL)
    if isinstance(value, int | float):
        return random_.choice(NUMBERS) if random_.random() < 0.7 else value * random_.choice((-1, 2, 10, 0.1, 1e6))
    return random_.choice(([], {}, None, deep(random_)))


def deep(random_: random.Random) -> Any:
    made: Any = 1
    for _ in range(random_.choice((3, 60, 400))):
        made = [made] if random_.random() < 0.5 else {"a": made}
    return made


def same_json(value: Any, random_: random.Random) -> str:
    """Return the same value with other white space, key order and escapes."""
    indent = random_.choice((None, 1, 4, "\t"))
    text = json.dumps(_shuffled(value, random_), indent=indent, ensure_ascii=random_.random() < 0.5)
    return random_.choice(("", " ", "\n\n")) + text + random_.choice(("", "\n", " \r\n\t"))


def _shuffled(value: Any, random_: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        random_.shuffle(names)
        return {name: _shuffled(value[name], random_) for name in names}
    return [_shuffled(part, random_) for part in value] if isinstance(value, list) else value


def lines_of(text: str, random_: random.Random) -> bytes:
    """Return a CSV table with one to eight cells, lines or columns changed."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(random_.choice((1, 1, 2, 8))):
        at = random_.randrange(len(rows))
        cell = random_.randrange(max(1, len(rows[at])))
        way = random_.randrange(8)
        if way == 0:
            del rows[at][cell : cell + 1]
        elif way == 1:
            rows[at].insert(cell, str(random_.choice(NUMBERS)))
        elif way == 2:
            rows.insert(at, list(rows[at]))
        elif way == 3 and len(rows) > 1:
            del rows[at]
        elif way == 4:
            rows[at] = [random_.choice(('"', '""', '"a', "", ";", "\t", "#"))]
        elif rows[at]:
            rows[at][cell % len(rows[at])] = str(random_.choice((*NUMBERS, *TEXTS, "nan", "inf", "1e400", "1,5")))
    made = random_.choice(("\n", "\r\n", "\n\n")).join(",".join(row) for row in rows)
    return made.encode(random_.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace")


def same_lines(text: str, random_: random.Random) -> bytes:
    """Return the same table with other line ends, empty lines and column order."""
    rows = [line.split(",") for line in text.splitlines()]
    order = list(range(len(rows[0])))
    random_.shuffle(order)
    end = random_.choice(("\n", "\r\n"))
    made = end.join(",".join(row[column] for column in order) for row in rows) + end * random_.choice((0, 1, 2))
    return made.encode(random_.choice(("utf-8", "utf-8-sig")))
