"""The pages in their groups, and the links between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from core.base.text import clean
from core.store import StoreError
from core.ui import css, machine, menu, registry
from core.ui.words import plain

ICON = Path(__file__).with_name("icon.png")  # a name such as ":material/…:" would be fetched from Google's servers
PAGE, ROUTED = "tab_page", "routed"


def name_tab(page: str) -> None:
    """Set the tab's title to that page, before :func:`st.navigation`, which would otherwise set its own icon."""
    st.session_state[PAGE] = page
    st.set_page_config(page_title=f"{page} · Breakeven", page_icon=ICON, layout="wide")


def name_result(name: str) -> None:
    """Add the name of the shown run or study to the tab's title."""
    st.set_page_config(page_title=clean(f"{name} · {st.session_state.get(PAGE, '')} · Breakeven"))


def first() -> str:
    """Return the page of the root address: without a GPU the question about one, else the sweep that answers it."""
    try:
        if registry.read_only():
            return "history"
        return "sweep" if machine.devices().has_gpu else "start"
    except StoreError:  # every page reports it
        return "start"


def pages() -> dict[str, list[StreamlitPage]]:
    """Return all pages by group; the menu omits the question about a GPU with one, and measuring pages if read-only.

    The root is a page of its own, which :func:`run` redirects: Streamlit gives its first page no other address, so a
    link to that page would fail if another page comes first.
    """
    opens = first()
    by_group = {group: [_page(name, opens) for name in names] for group, names in menu.groups().items()}
    by_group[""].append(st.Page(_root, title="Breakeven", url_path="root", default=True, visibility="hidden"))
    return by_group


def _page(name: str, opens: str) -> StreamlitPage:
    page = menu.pages()[name]
    hidden = (name == "start" and opens != "start") or (page.only_measures and registry.read_only())
    return st.Page(menu.path(name), title=page.title, icon=page.icon, help=page.help, url_path=name,
                   visibility="hidden" if hidden else "visible")  # fmt: skip


def _root() -> None:
    """Do nothing; never run: see :func:`pages`."""


def link(name: str, label: str = "", icon: str = "", **query: str) -> None:
    """Link to a page, by default with its own label; ``query`` are the address's parameters."""
    page = menu.pages()[name]
    st.page_link(menu.path(name), label=label or page.link, icon=icon or page.icon, query_params=query or None)


def put(**query: str | None) -> None:
    """Put parameters into the page's address; an empty one is removed."""
    for name, value in query.items():
        if value:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)


def run(above: Callable[[str], None]) -> None:
    """Route to the requested page; a flag tells :func:`guard` that the page has its frame.

    ``above`` draws the content above every page, given the page's name; embedded pages have none.
    """
    name_tab("Breakeven")
    page = st.navigation(pages(), position="hidden" if st.context.is_embedded else "top")
    name = page.url_path
    if not name:
        st.switch_page(menu.path(first()), query_params=st.query_params.to_dict())
    name_tab(page.title)
    css.apply(in_group=bool(menu.pages()[name].group))
    if st.context.is_embedded and not menu.pages()[name].embeds:
        st.info("This page has no embedded view; open it by itself.", icon=":material/frame_inspect:")
        return
    st.session_state[ROUTED] = True
    try:
        if not st.context.is_embedded:
            above(name)
        page.run()
    except StoreError as error:  # the disk or the database failed: report it on any page
        st.error(plain(str(error)), icon=":material/database_off:")
    finally:
        st.session_state[ROUTED] = False


def guard(measures: bool = False) -> None:
    """Guard a page, as its first call; one that ``measures`` is empty on a read-only server.

    On a cold server a direct link to a page makes Streamlit run that file alone, without the router. Declaring the
    navigation and rerunning repairs that and keeps the query string. Then the store must open, or the page says why
    not.
    """
    if not st.session_state.get(ROUTED, False):
        name_tab("Breakeven")
        st.navigation(pages(), position="top")
        st.rerun()
    registry.require()
    if measures and registry.read_only():
        st.title("Nothing is measured here", anchor=False)
        link("history")
        st.stop()
