"""The page Sweep: its form and the running sweep."""
