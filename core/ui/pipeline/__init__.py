"""The page Pipeline."""

from core.ui.menu import Page

PAGE = Page(
    title="Pipeline",
    icon=":material/water_pump:",
    order=70,
    group="Result",
    help="How much of a step the input takes, which prefetch is enough, from which cost on the device starves.",
    opens={"pipeline": "study"},
    measures=("pipeline",),
)
