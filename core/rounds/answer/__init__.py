"""Answer derived from the record of rounds: step times, ratios, crossovers, verdicts. Pure functions."""
