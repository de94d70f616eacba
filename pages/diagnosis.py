"""Diagnosis: what would make one target of a run faster, tried and measured on this machine."""

from core.ui import navigation, shown_run
from core.ui.diagnosis import page

navigation.guard()
page.show(shown_run.run())
