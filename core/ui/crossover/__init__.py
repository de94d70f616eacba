"""The page Crossover."""
