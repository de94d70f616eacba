"""Kinds of study, one folder each: the plan, the record, the measurement, and the answer derived from the record."""
