"""Start: without a GPU, the question about one, answered for a measured CPU and a modelled card."""

from core.ui import navigation
from core.ui.start import page

navigation.guard(measures=True)
page.show()
