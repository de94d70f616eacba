"""History: every study kept here, and comparisons."""

from core.ui import navigation
from core.ui.history import page

navigation.guard()
page.show()
