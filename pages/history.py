"""History: every study kept here, and comparisons."""

from core.ui import history, navigation

navigation.guard()
history.show()
