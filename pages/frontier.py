"""Frontier: how deep, how wide or how large in batch it must be before the second target pays."""

import streamlit as st

from core.ui import navigation
from core.ui.frontier import form, page, result

navigation.guard()
if not st.context.is_embedded:
    st.title("How big must the model be before the second target pays?", anchor=False)
page.PAGE.frame(form.show, result.show, page.before, result.so_far)
