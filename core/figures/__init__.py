"""Marks, colours and layout that charts share. Pure: no Streamlit, no storage, no clock."""
