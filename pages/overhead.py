"""Overhead: where the step time of one target goes, traced, down to one step and its kernels; its fixed-cost share."""

from core.ui import navigation, opened
from core.ui.overhead import result

navigation.guard()
result.show(opened.run())
