"""Method: the words, the rules of measurement, a self-check, this machine, and timing pitfalls shown live."""

import streamlit as st

from core.ui import evidence, frame, machine, method_text, navigation
from core.ui.hardware import published
from core.ui.method import demo, resolution, selfcheck

navigation.guard()
frame.top("How are these numbers made?")
st.header(
    "Targets take turns in short rounds on one machine, so that its noise cancels, and what is not clear at 95 % is "
    "not claimed.",
    anchor=False,
)
method_text.labels()
resolution.show()
frame.folded(
    {
        "The rules of measurement": method_text.rules,
        "The words": method_text.words,
        "Self-check of this machine": selfcheck.show,
        "Timing pitfalls, live": demo.show,
        "This machine": lambda: evidence.facts_of(machine.now(), "machine"),
    }
)
published.to_gallery("How far to trust the model of GPUs: published curves of real CPUs and GPUs beside it")
