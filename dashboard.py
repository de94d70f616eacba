"""The dashboard's script, which app.py serves: the router, and what stands above every page."""

from core.ui import navigation, running_line

navigation.run(running_line.show)
