"""Fleet: the same sweep on several machines, and which of them is the fastest at which batch."""

from core.ui import navigation
from core.ui.fleet import page

navigation.guard()
page.show()
