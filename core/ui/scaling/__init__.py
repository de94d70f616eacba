"""The page Scaling."""

from core.ui.menu import Page

PAGE = Page(
    "Scaling", ":material/account_tree:", order=120, group="More", opens={"scaling": "study"}, measures=("scaling",),
    help="From which batch several GPUs are faster than one, how efficiently, why not earlier, and what would help.",
)  # fmt: skip
