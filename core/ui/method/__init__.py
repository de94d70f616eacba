"""The page Method."""

from core.ui.menu import Page

PAGE = Page(
    title="Method",
    icon=":material/menu_book:",
    order=40,
    embeds=False,
    help="The words, the rules of measurement, this machine, and common timing pitfalls live.",
    opens={"resolution": "study"},
    measures=("resolution",),
    folded=("selfcheck", "pitfalls"),
)
