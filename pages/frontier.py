"""Frontier: at which depth, width and batch one target is faster than the other."""

from core.ui import navigation
from core.ui.frontier import form, page, result

navigation.guard()
page.PAGE.frame(result.QUESTION, form.show, result.show, page.before, result.so_far)
