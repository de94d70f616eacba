"""The page Crossover."""

from core.ui.menu import Page

PAGE = Page(
    title="Crossover",
    icon=":material/line_axis:",
    order=50,
    group="Result",
    help="The verdict of one run, its charts, and how it was measured.",
    link="The verdict of this run and its charts",
    opens={"sweep": "run"},
)
