"""The page Batch."""

from core.ui.menu import Page

PAGE = Page(
    "Batch", ":material/stacks:", order=100, group="More", opens={"memory": "memory", "noise": "noise"},
    measures=("memory", "noise"), link="Which batch to train with: noise scale, memory and cost",
    help="Which batch to train with: time to a loss, the gradient noise scale, memory and cost.",
)  # fmt: skip
