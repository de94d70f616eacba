"""Job: where the time of a script of one's own goes, and from which length on another target pays for it."""

from core.ui import navigation
from core.ui.job import page

navigation.guard()
page.PAGE.frame(page.QUESTION, page.form, page.result, page.before)
