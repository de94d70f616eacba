"""The page Serving."""

from core.ui.menu import Page

PAGE = Page(
    "Serving", ":material/dns:", order=105, group="More", link="Which request rate each target carries",
    opens={"serving": "served"}, measures=("serving",),
    help="Which request rate each target carries at a promised latency, and from which rate the GPU costs less.",
)  # fmt: skip
