"""The page Overhead."""

from core.ui.menu import Page

PAGE = Page(
    "Overhead", ":material/stacked_bar_chart:", order=70, group="More", folded=("trace",),
    help="Where a step goes: traced parts, a timeline, kernels, what ran on the host.",
)  # fmt: skip
