"""The page History."""

from core.ui.menu import Page

PAGE = Page(
    title="History",
    icon=":material/history:",
    order=30,
    help="Every study kept here: search, open, compare, tag, rename, delete, import, export.",
    link="See the runs that are here",
)
