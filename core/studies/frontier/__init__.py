"""The frontier: where two targets tie over depth, width and batch."""
