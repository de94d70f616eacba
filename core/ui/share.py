"""The contents of a result's *Share*: its link and who can open it, the view without menus, its files.

A page passes :func:`run_panel` or :func:`panel` to :func:`core.ui.frame.show`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from core.rounds.run import Run
from core.studies.kind import Context, Kind
from core.ui import downloads
from core.ui.downloads import EVERY_BLOCK as EVERY_BLOCK
from core.ui.downloads import Figure, File, Rows
from core.ui.words import plain

T = TypeVar("T")
ALONE = Context()
ONLY_HERE = (
    "This link opens on this computer only, because the dashboard listens on {host}. Send others a file, or see "
    "docs/team.md for a team’s server."
)
NEAR = "This link opens for everybody who can reach {host}: an address inside your own network."
FAR = "This link opens for everybody who can reach {host}."


def run_panel(run: Run, figure: Figure | None = None, verdict: Callable[[], str] | None = None, **query: str) -> None:
    """Draw a run's link, view without menus, PNG, SVG, Markdown, report, JSON and CSV.

    ``query`` are the further parameters in a link to this page; ``figure`` and ``verdict`` as for its files.
    """
    panel(run.id, {"run": run.id, **query}, downloads.run_files(run, figure, verdict))


def panel(name: str, query: Mapping[str, str], files: Iterable[File]) -> None:
    """Draw the panel of any result, at most as wide as a phone.

    ``query`` are its address's parameters, ``name`` is part of its files' names; the files are those of
    :func:`core.ui.downloads.study_files`.
    """
    base = address(query)
    _link(base)
    st.markdown("**Files**, made when you press one")
    with st.container(horizontal=True, gap="small"):
        downloads.draw(name, files)
    _without_menus(base)


def study(
    kind: Kind[Any, Any, Any], study_id: str, record: Any, query: Mapping[str, str], figure: Figure | None = None,
    rows: Rows | None = None, context: Context = ALONE,
) -> None:  # fmt: skip
    """Draw a separate share button for a study that is one part of a page.

    ``query`` as for :func:`panel`, ``figure`` and ``rows`` as for its files.
    """

    def of(make: Callable[[Any, Any, Context], T]) -> Callable[[], T]:
        return lambda: make(record, kind.answer(record, context), context)

    name = f"{kind.name}-{study_id}"
    with st.popover(f"Share this {kind.noun}", icon=":material/share:"):
        panel(name, query, downloads.study_files(name, of(kind.export), text=of(kind.text), figure=figure, rows=rows))


def address(query: Mapping[str, str]) -> str:
    """Return the link to this page with the parameters ``query``; empty if the page has no address."""
    here = st.context.url
    if not here:
        return ""
    scheme, host, path, *_ = urlsplit(here)
    return urlunsplit((scheme, host, path or "/", urlencode(query, safe="~"), ""))


def _link(base: str) -> None:
    if base:
        st.markdown("**Link** to this result")
        st.code(base, language=None, wrap_lines=True)
        st.caption(plain(reach(urlsplit(base).hostname or "")))


def _without_menus(base: str) -> None:
    if base:
        st.markdown("**Without menus**, for a slide or another page")
        st.code(f"{base}&embed=true", language=None, wrap_lines=True)


def reach(host: str) -> str:
    """Return a sentence on who can open a link to a host. Pure."""
    try:
        address = ipaddress.ip_address(host)
        here, near = address.is_loopback, address.is_private or address.is_link_local
    except ValueError:
        here = host == "localhost" or host.endswith(".localhost")
        near = "." not in host or host.endswith((".local", ".lan", ".internal", ".home.arpa"))
    return (ONLY_HERE if here else NEAR if near else FAR).format(host=host)


def json_button(name: str, make: Callable[[], Mapping[str, Any]], meaning: str) -> None:
    """Draw a single download of JSON; ``name`` is the file's, without its ending."""
    downloads.draw(name, downloads.study_files(name, make, meaning=meaning))


OLD = ("first", "second")
"""Names of the targets in addresses from the time of two targets; they stay valid."""


def target_address(target: int) -> str:
    return str(target + 1)


def addressed_target(text: str | None, targets: Sequence[int]) -> int | None:
    """Return the one of these targets that the text of an address names, or None."""
    named = {target_address(target): target for target in targets}
    named |= {old: target for target, old in enumerate(OLD) if target in targets}
    return named.get(text or "")
