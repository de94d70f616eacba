"""Start: without a GPU, the question about one, answered for a measured CPU and a modelled card."""

from core.ui import navigation, start

navigation.guard(measures=True)
start.show()
