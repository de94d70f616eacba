"""The page Frontier."""

from core.ui.menu import Page

PAGE = Page(
    title="Frontier",
    icon=":material/terrain:",
    order=100,
    group="Maps",
    help="How deep, wide or large in batch it must be before the second target is faster: a map.",
    opens={"frontier": "study"},
    measures=("frontier",),
)
