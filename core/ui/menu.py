"""The pages of the dashboard: each folder of :mod:`core.ui` with a ``PAGE`` is one, served by ``pages/<folder>.py``.

Importing a folder's ``__init__`` is cheap; what draws its page is loaded when the page is opened.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache

import core.ui


@dataclass(frozen=True)
class Page:
    """Entry of a page in the menu, and the studies that belong to it.

    Args:
        help: Sentence that explains the page in the menu.
        order: Position among all pages; a group stands where its first page does.
        group: Heading in the menu; a page without one is top-level.
        link: Default label of links to the page.
        embeds: Whether other pages may frame it, as results without controls.
        only_measures: Whether the menu of a read-only server omits it.
        opens: Kinds of study that it shows, by name, each with the study's parameter in the address.
        measures: Kinds that are measured here: the page draws their progress, and others link to it.
        follows: Kinds measured elsewhere whose progress the page draws, too.
        folded: Kinds and tasks measured here, in a part of the page that may be closed.
    """

    title: str
    icon: str
    _: KW_ONLY
    help: str
    order: int
    group: str = ""
    link: str = ""
    embeds: bool = True
    only_measures: bool = False
    opens: Mapping[str, str] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()


@cache
def pages() -> dict[str, Page]:
    """Return all pages in the menu's order, by the name of their folder, file and address."""
    by_name = {
        info.name: page
        for info in pkgutil.iter_modules(core.ui.__path__)
        if info.ispkg and (page := getattr(importlib.import_module(f"{core.ui.__name__}.{info.name}"), "PAGE", None))
    }
    return dict(sorted(by_name.items(), key=lambda item: item[1].order))


def groups() -> dict[str, list[str]]:
    """Return the names of the pages by heading."""
    names: dict[str, list[str]] = {}
    for name, page in pages().items():
        names.setdefault(page.group, []).append(name)
    return names


def path(name: str) -> str:
    """Return the file of a page, as Streamlit names it."""
    return f"pages/{name}.py"


def opening(kind: str) -> tuple[str, str] | None:
    """Return the page that shows studies of a kind, and their parameter in its address; None if no page does."""
    return next(((name, page.opens[kind]) for name, page in pages().items() if kind in page.opens), None)


def address(kind: str) -> str:
    """Return the parameter of a kind's studies in the address of the page that measures them, else shows them."""
    name = measuring(kind) or (opening(kind) or ("",))[0]
    return pages()[name].opens.get(kind, "study") if name else "study"


def measuring(kind: str) -> str | None:
    """Return the page on which a kind or task is measured, or None if only a command measures it."""
    return next((name for name, page in pages().items() if kind in (*page.measures, *page.folded)), None)
