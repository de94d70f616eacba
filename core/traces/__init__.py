"""Profiler traces: their events (:mod:`core.traces.events`) and the reader of files (:mod:`core.traces.xplane`)."""
