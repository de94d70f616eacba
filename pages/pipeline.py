"""Pipeline: how much of a step the input takes, which prefetch is enough, from which cost on the device starves."""

import streamlit as st

from core.ui import navigation
from core.ui.pipeline import form, page, result

navigation.guard()
if not st.context.is_embedded:
    st.title("Does the input pipeline keep up with the device?", anchor=False)
page.PAGE.frame(form.show, result.show, page.before)
