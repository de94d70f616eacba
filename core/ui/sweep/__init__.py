"""The page Sweep: its form and the running sweep."""

from core.ui.menu import Page

PAGE = Page(
    "Sweep", ":material/speed:", order=20, embeds=False, only_measures=True, measures=("sweep",),
    link="Measure this machine",
    help="Choose a workload and up to six targets, measure this machine, watch it happen.",
)  # fmt: skip
