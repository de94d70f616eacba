"""The page Overhead."""
