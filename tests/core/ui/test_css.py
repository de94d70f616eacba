"""Layout rules of pages: each picture is cut at the end of its text."""

import re

import pytest

from core.figures.style import Words
from core.ui.css import MOST_LINES, STYLE, plot_key


@pytest.mark.parametrize("under", range(0, MOST_LINES, 3))
@pytest.mark.parametrize("foot", range(0, MOST_LINES, 5))
def test_a_picture_is_cut_by_what_its_own_words_take(under: int, foot: int) -> None:
    words = Words("Title", ("x",) * under, ("y",) * foot, more_rows=under % 4)
    key = f"st-key-{plot_key(words, '5-1-more9-name')}"
    found = {
        (name, int(px))
        for rules, name, px in re.findall(r'(\[class\*="[^{]*) \{ --(above|below|more): (?:max\(0px, )?(\d+)px', STYLE)
        if all(part in key for part in re.findall(r'\[class\*="([^"]*)"\]', rules))
    }
    assert {px for name, px in found if name == "above"} == {words.above_px}
    assert words.below_px in {px for name, px in found if name == "below"}
