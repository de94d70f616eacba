"""Rule for framing by other pages: allowed only where a click cannot change anything.

In a foreign page's frame a click meant for something else could cancel a measurement (clickjacking). So only the
embedded view may be framed: an address with ``embed=true`` shows results without forms, for design reviews.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALONE = ((b"content-security-policy", b"frame-ancestors 'self'"), (b"x-frame-options", b"SAMEORIGIN"))


class FrameRules:
    """ASGI middleware that lets other pages frame a response only if its address asks for the embedded view."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_rules(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_embedded(scope):
                message = {**message, "headers": [*message.get("headers", ()), *ALONE]}
            await send(message)

        await self._app(scope, receive, send_with_rules if scope["type"] == "http" else send)


def is_embedded(scope: Scope) -> bool:
    """Return whether the address has ``embed=true`` exactly once, so that Streamlit reads it the same way."""
    parameters = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return parameters.get("embed") == ["true"]
