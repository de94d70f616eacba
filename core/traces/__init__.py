"""Profiler traces: their events (:mod:`core.traces.events`) and the file reader (:mod:`core.traces.xplane`)."""
