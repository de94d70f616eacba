"""The page Diagnosis."""

from core.ui.menu import Page

PAGE = Page(
    "Diagnosis", ":material/stethoscope:", order=90, group="More", opens={"diagnosis": "study"},
    measures=("diagnosis",), link="What would help, measured on this machine",
    help="What would make a target faster: every remedy tried here, ranked by its measured gain.",
)  # fmt: skip
