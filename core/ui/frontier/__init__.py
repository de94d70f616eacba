"""The page Frontier."""

from core.ui.menu import Page

PAGE = Page(
    "Frontier", ":material/terrain:", order=110, group="More", opens={"frontier": "study"}, measures=("frontier",),
    help="How deep, wide or large in batch it must be before the second target is faster: a map.",
)  # fmt: skip
