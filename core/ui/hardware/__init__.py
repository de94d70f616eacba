"""The Hardware page, and a modelled GPU beside a measured verdict."""

from core.ui.menu import Page

PAGE = Page(
    "Hardware", ":material/memory:", order=40,
    opens={"host": "host", "validation": "validation", "compiled": "compiled"},
    measures=("host", "compiled"), link="Against GPUs that are not here, modelled",
    help="From which batch size GPUs that are not here would be faster than this CPU: modelled, with its error.",
)  # fmt: skip
