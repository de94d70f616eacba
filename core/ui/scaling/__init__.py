"""The page Scaling."""

from core.ui.menu import Page

PAGE = Page(
    title="Scaling",
    icon=":material/account_tree:",
    order=110,
    group="Maps",
    help="From which batch several GPUs are faster than one, how efficiently, why not earlier, and what would help.",
    opens={"scaling": "study"},
    measures=("scaling",),
)
