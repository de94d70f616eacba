"""A validation: step times predicted for a GPU before anything is measured on it, then measured."""
