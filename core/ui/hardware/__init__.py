"""The page Hardware, and a modelled GPU beside a measured verdict."""
