"""The page Overhead."""

from core.ui.menu import Page

PAGE = Page(
    title="Overhead",
    icon=":material/stacked_bar_chart:",
    order=60,
    group="Result",
    help="Where a step goes: traced parts, a timeline, kernels, what ran on the host.",
    folded=("trace",),
)
