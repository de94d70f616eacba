"""The page Batch."""

from core.ui.menu import Page

PAGE = Page(
    title="Batch",
    icon=":material/stacks:",
    order=90,
    group="Result",
    help="Which batch to train with: time to a loss, the gradient noise scale, memory and cost.",
    link="Which batch to train with: noise scale, memory and cost",
    opens={"memory": "memory", "noise": "noise"},
    measures=("memory", "noise"),
)
