"""Tells clients of the tools for agents where their users sign on.

By metadata of a protected resource (RFC 9728), to which a refused request leads, as the Model
Context Protocol wants it of servers that take an issuer's tokens. It has public facts alone: the
address of the tools and that of the issuer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from dpsql.server.people.sign_on import SignOnSettings

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The tools at a path of the door, for users of an issuer."""

    settings: SignOnSettings
    path: str

    @property
    def metadata_path(self) -> str:
        """The path of the metadata."""
        return f"{_WELL_KNOWN}{self.path}"

    async def reply(self, request: Request) -> Response:
        """Return the metadata."""
        host, path = self._address(request)
        found = {
            "resource": f"{host}{path}",
            "authorization_servers": [self.settings.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "dpsql",
        }
        return Response(json.dumps(found), media_type="application/json")

    def challenge(self, request: Request) -> str:
        """Write the header of a refused login: where the metadata is, and that a token was wrong.

        Nothing is said of one where none was sent (RFC 6750, section 3).
        """
        host, path = self._address(request)
        wrong = 'error="invalid_token", ' if "authorization" in request.headers else ""
        return f'Bearer {wrong}resource_metadata="{host}{_WELL_KNOWN}{path}"'

    def _address(self, request: Request) -> tuple[str, str]:
        """Return the tools' address, which tokens are for: its scheme with the host, and its path.

        An audience that is an address of such tools says it, as the server may stand behind
        another one; else it is where the request was sent to.
        """
        found = urlsplit(self.settings.audience)
        if found.scheme == "https" and found.netloc and found.path.endswith(self.path):
            return f"https://{found.netloc}", found.path
        # The host's letters were looked at before the request was routed.
        return f"{request.scope['scheme']}://{request.headers['host']}", self.path
