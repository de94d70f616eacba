"""The page Job."""

from core.ui.menu import Page

PAGE = Page(
    "Job", ":material/description:", order=60, group="More", opens={"job": "study"}, measures=("job",),
    help="Where the time of your own script goes, and from which length on another target is faster.",
)  # fmt: skip
