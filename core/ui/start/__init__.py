"""The page Start."""

from core.ui.menu import Page

PAGE = Page(
    "Start", ":material/balance:", order=10, embeds=False, only_measures=True, follows=("sweep",),
    help="From which batch size a GPU that is not here would beat this CPU: measured against modelled.",
)  # fmt: skip
