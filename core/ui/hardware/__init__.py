"""The Hardware page, and a modelled GPU beside a measured verdict."""
