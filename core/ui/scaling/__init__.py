"""The page Scaling."""
