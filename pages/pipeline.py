"""Pipeline: how much of a step the input takes, which prefetch is enough, from which cost on the device starves."""

from core.ui import navigation
from core.ui.pipeline import page

navigation.guard()
page.PAGE.frame(page.QUESTION, page.form, page.result, page.before)
