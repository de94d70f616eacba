"""Method: the words, the rules of measurement, a self-check, this machine, and timing pitfalls shown live."""

import streamlit as st

from core.ui import demo, machine, method, navigation, selfcheck
from core.ui.hardware import published

navigation.guard()
st.title("Method", anchor=False)
navigation.tabs(
    "method_tab",
    {
        "The words": method.words,
        "The rules": method.rules,
        "Self-check": selfcheck.show,
        "Timing pitfalls, live": demo.show,
        "This machine": machine.environment_view,
    },
)
published.to_gallery("How far to trust the model of GPUs: published curves of real CPUs and GPUs beside it")
