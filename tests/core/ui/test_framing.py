"""The sites that may show the dashboard in a frame."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.ui.framing import FrameRules


def headers(query: bytes) -> dict[bytes, bytes]:
    """Return the headers of a response to an address with that query."""
    sent: list[dict[str, Any]] = []

    async def served(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"vary", b"x")]})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(FrameRules(served)({"type": "http", "query_string": query}, None, send))  # type: ignore[arg-type]
    return dict(sent[0]["headers"])


@pytest.mark.parametrize("query", [b"", b"run=x", b"embed=false", b"embed=true&embed=false", b"embed=", b"xembed=true"])
def test_a_page_with_its_buttons_may_not_be_framed(query: bytes) -> None:
    found = headers(query)
    assert (found[b"content-security-policy"], found[b"x-frame-options"]) == (b"frame-ancestors 'self'", b"SAMEORIGIN")


@pytest.mark.parametrize("query", [b"embed=true", b"run=20260105-x&embed=true"])
def test_an_embedded_result_may(query: bytes) -> None:
    assert headers(query) == {b"vary": b"x"}
