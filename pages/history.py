"""History: every study kept here, and those of an address compared."""

from core.ui import history, navigation

navigation.guard()
history.show()
