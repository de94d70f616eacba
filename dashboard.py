"""The dashboard's script, which app.py serves: page configuration and router, nothing else."""

import streamlit as st

from core.ui import navigation

st.set_page_config(page_title="Breakeven", page_icon=":material/balance:", layout="wide")
navigation.run()
