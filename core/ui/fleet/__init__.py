"""The Fleet page: machines with their states, the comparison, and the form that starts a run or collects files."""

from core.ui.menu import Page

PAGE = Page(
    "Fleet", ":material/dns:", order=130, group="More", opens={"fleet": "study"}, measures=("fleet",),
    link="Several machines compared",
    help="The same sweep on several machines: which of them is the fastest at which batch, and at what cost.",
)  # fmt: skip
