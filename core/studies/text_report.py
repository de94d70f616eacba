"""Report of a study of any kind, from its command's text and its picture: as Markdown and as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.base.text import in_lines, in_markdown
from core.figures.page import escape, page

if TYPE_CHECKING:
    import plotly.graph_objects as go


def markdown(text: str, picture: str | None = None) -> str:
    """Return the first line as a heading, then the picture (a file beside the text), then the rest verbatim."""
    headline, rest = _parted(text)
    parts = [f"### {in_markdown(headline)}"]
    parts += [f"![{in_markdown(headline)}]({picture})"] if picture else []
    if rest:
        fence = "`" * max(3, 1 + max((len(run) for run in _ticks(rest)), default=0))
        parts.append(f"{fence}text\n{rest}\n{fence}")
    return "\n\n".join(parts) + "\n"


def html(text: str, figure: go.Figure | None = None) -> str:
    """Return the same as a page that opens offline and sends nothing."""
    headline, rest = _parted(text)
    parts = [f"<h1>{escape(headline)}</h1>"]
    if figure is not None:
        from core.figures.svg import svg

        parts.append(f'<div class="scroll">{svg(figure, "page", alt=headline)}</div>')
    lines = "\n".join(escape(line) for line in rest.split("\n"))
    return page(headline, [*parts, f'<div class="scroll"><pre>{lines}</pre></div>' if rest else ""])


def _parted(text: str) -> tuple[str, str]:
    headline, _, rest = text.partition("\n")
    return headline, in_lines(rest.strip("\n").split("\n"))


def _ticks(text: str) -> list[str]:
    """Return the runs of backticks, none of which may close the fence around them."""
    return "".join(c if c == "`" else " " for c in text).split()
