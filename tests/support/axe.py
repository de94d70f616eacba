"""axe-core on a page, and its findings."""

from importlib.resources import files
from typing import Any

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def script() -> str:
    """Return axe-core from the package that carries it."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def findings(page: Any) -> list[tuple[str, str, str]]:
    """Return rule, selector and HTML of each element that breaks a rule."""
    page.evaluate(script())
    found = page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})", TAGS
    )
    return [
        (rule["id"], " ".join(map(str, node["target"])), node["html"])
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
