"""Crossover: from which batch size which target is faster, as one sentence and one picture; the evidence folded."""

from core.ui import navigation, opened
from core.ui.crossover import page

navigation.guard()
page.show(opened.run())
