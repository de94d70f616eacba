"""Short names and words of kinds, as the families read and write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.families.base import Choice

MAX_NAME = 200


def parts_of(name: str, pattern: re.Pattern[str], what: str, example: str) -> dict[str, str]:
    """The named groups of a short name, without those that are absent. Raises ValueError with a sentence."""
    match = pattern.fullmatch(name.strip().lower()) if len(name) <= MAX_NAME else None
    if match is None:
        raise ValueError(f"“{name[:60]}” is no {what}; write it as in {example}.")
    return {key: value for key, value in match.groupdict().items() if value is not None}


def number_pattern(text: str) -> re.Pattern[str]:
    """Pattern of a short name, where ``{group}`` stands for a whole number of at most nine digits."""
    return re.compile(re.sub(r"\{([a-z_]+)\}", r"(?P<\1>\\d{1,9})", text), re.ASCII)


def word_of(choices: Iterable[Choice], values: dict[str, int], name: str) -> str:
    """The word that was picked for the choice of that name. Raises ValueError with a sentence."""
    choice = next(choice for choice in choices if choice.name == name)
    if not choice.low <= values[name] <= choice.high:
        raise ValueError(f"{choice.label} is {values[name]:,}; accepted are {', '.join(choice.words)}.")
    return choice.words[values[name] - choice.low]


def value_of(choice: Choice, text: str) -> int:
    """The number that stands for a word of a choice, in any case. Raises ValueError with a sentence."""
    words = [word.lower() for word in choice.words]
    if text.strip().lower() not in words:
        raise ValueError(f"{choice.label} is “{text[:40]}”; accepted are {', '.join(choice.words)}.")
    return choice.low + words.index(text.strip().lower())
