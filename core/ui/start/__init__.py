"""The page Start."""

from core.ui.menu import Page

PAGE = Page(
    title="Start",
    icon=":material/balance:",
    order=10,
    embeds=False,
    only_measures=True,
    help="From which batch size a GPU that is not here would beat this CPU: measured against modelled.",
    follows=("sweep",),
)
