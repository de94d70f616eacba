"""Diagnosis: what would make one target of a run faster, tried and measured on this machine."""

from core.ui import navigation, opened
from core.ui.diagnosis import page

navigation.guard()
page.show(opened.run())
