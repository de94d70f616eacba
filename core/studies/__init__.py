"""Kinds of study, a folder each: what to measure, the record, how to run it, and the answer derived from it."""
