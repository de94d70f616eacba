"""Shared parts of the pages. The only package under core/ that imports Streamlit."""
