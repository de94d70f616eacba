"""The page Crossover."""

from core.ui.menu import Page

PAGE = Page(
    "Crossover", ":material/line_axis:", order=30, opens={"sweep": "run"},
    link="The verdict of this run and its charts",
    help="The verdict of one run, its charts, and how it was measured.",
)  # fmt: skip
