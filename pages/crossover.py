"""Crossover: from which batch size which target is faster, as one sentence and one picture; the evidence folded."""

from core.ui import navigation, shown_run
from core.ui.crossover import page

navigation.guard()
page.show(shown_run.run())
