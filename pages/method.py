"""Method: the words, the rules of measurement, this machine, and timing pitfalls shown live."""

import streamlit as st

from core.ui import demo, machine, method, navigation

navigation.guard()
st.header("Method", anchor=False)

words, rules, pitfalls, here = st.tabs(
    ["The words", "The rules", "Timing pitfalls, live", "This machine"], key="method", on_change="rerun"
)
if words.open:
    with words:
        method.words()
if rules.open:
    with rules:
        method.rules()
if pitfalls.open:
    with pitfalls:
        demo.show()
if here.open:
    with here:
        machine.environment_view()
