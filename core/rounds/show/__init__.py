"""Display of rounds and their answer: figures, tables, exports and reports. Pure functions."""
