"""Method: the words, the rules of measurement, this machine, and timing pitfalls shown live."""

import streamlit as st

from core.ui import demo, machine, method, navigation

navigation.guard()
st.header("Method", anchor=False)
navigation.tabs(
    "method_tab",
    {
        "The words": method.words,
        "The rules": method.rules,
        "Timing pitfalls, live": demo.show,
        "This machine": machine.environment_view,
    },
)
