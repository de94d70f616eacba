"""Marks, colours and layout shared by charts. Pure: no Streamlit, no storage, no clock."""
