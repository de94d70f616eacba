"""Breakeven's engine: specification, measurement, analysis, storage and export, usable without Streamlit."""

__version__ = "0.1.0"
