"""The page History."""

from core.ui.menu import Page

PAGE = Page(
    "History", ":material/history:", order=50, link="See the runs that are here",
    help="Every study kept here: search, open, compare, tag, rename, delete, import, export.",
)  # fmt: skip
