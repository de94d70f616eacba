"""Overhead: where the step time of one target goes, traced, down to one step and its kernels; its fixed-cost share."""

from core.ui import navigation, shown_run
from core.ui.overhead import result, trace_file

navigation.guard()
if (file := trace_file.opened()) is not None:
    trace_file.show(file)
else:
    result.show(shown_run.run())
