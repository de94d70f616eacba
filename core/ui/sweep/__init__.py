"""The page Sweep: its form and the running sweep."""

from core.ui.menu import Page

PAGE = Page(
    title="Sweep",
    icon=":material/speed:",
    order=20,
    embeds=False,
    only_measures=True,
    help="Choose a workload and up to six targets, measure this machine, watch it happen.",
    link="Measure this machine",
    measures=("sweep",),
)
