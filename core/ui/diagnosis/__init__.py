"""The page Diagnosis."""

from core.ui.menu import Page

PAGE = Page(
    title="Diagnosis",
    icon=":material/stethoscope:",
    order=80,
    group="Result",
    help="What would make a target faster: every remedy tried here, ranked by its measured gain.",
    link="What would help, measured on this machine",
    opens={"diagnosis": "study"},
    measures=("diagnosis",),
)
