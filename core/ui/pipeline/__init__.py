"""The page Pipeline."""

from core.ui.menu import Page

PAGE = Page(
    "Pipeline", ":material/water_pump:", order=80, group="More", opens={"pipeline": "study"}, measures=("pipeline",),
    help="How much of a step the input takes, which prefetch is enough, from which cost on the device starves.",
)  # fmt: skip
