"""The page Diagnosis."""
