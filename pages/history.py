"""History: every run kept here."""

import streamlit as st

from core.ui import history, navigation

navigation.guard()
st.header("History", anchor=False)
history.show()
