"""Scaling: from which batch several devices are faster than one, how efficiently, and why not earlier."""

from core.ui import navigation
from core.ui.scaling import form, page

navigation.guard()
page.PAGE.frame(page.QUESTION, form.show, page.result, page.before, page.so_far)
