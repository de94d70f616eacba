"""The page Method."""

from core.ui.menu import Page

PAGE = Page(
    "Method", ":material/menu_book:", order=140, group="More", embeds=False, opens={"resolution": "study"},
    measures=("resolution",), folded=("selfcheck", "pitfalls"),
    help="The words, the rules of measurement, this machine, and common timing pitfalls live.",
)  # fmt: skip
