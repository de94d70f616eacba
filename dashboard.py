"""The dashboard's script, which app.py serves: the router, and what stands above every page."""

from core.ui import chip, navigation

navigation.run(chip.show)
