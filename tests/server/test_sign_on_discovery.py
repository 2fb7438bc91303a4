"""Clients of the tools for language models find where to sign on, and come in with its token."""

from __future__ import annotations

import hashlib
import http.server
import json
import secrets
import signal
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from helpers.http_serving import HttpServing, filled_with_tokens, http_started
from helpers.issuing import AUDIENCE, CLIENT, Issuer, issuing

ABSENT = "the extra `mcp` is not installed"
Client = pytest.importorskip("mcp.client", reason=ABSENT).Client
streamable = pytest.importorskip("mcp.client.streamable_http", reason=ABSENT)
httpx = pytest.importorskip("httpx2", reason=ABSENT)
oauth = pytest.importorskip("mcp.client.auth", reason=ABSENT)
shared = pytest.importorskip("mcp.shared.auth", reason=ABSENT)

METADATA = "/.well-known/oauth-protected-resource/mcp"
LISTED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPTED = {"accept": "application/json, text/event-stream"}
BACK = "http://127.0.0.1:1/back"


class SignOnPage:
    """The pages of an issuer at which a person agrees, and a client gets its token (PKCE)."""

    def __init__(self, issuer: Issuer, resource: str) -> None:
        self.issuer = issuer
        self.resource = resource
        self.codes: dict[str, str] = {}
        self.tokens = 0
        issuer.reply = self.reply
        issuer.metadata = {
            "authorization_endpoint": f"{issuer.url}/authorize",
            "token_endpoint": f"{issuer.url}/token",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def agreed(self, address: str) -> tuple[str, str]:
        """Agree for ana at the page that a client leads to; returns the code and the state."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(f"{self.issuer.url}/authorize?")
        assert given["client_id"] == CLIENT
        assert given["code_challenge_method"] == "S256"
        assert given["resource"] == self.resource
        code = secrets.token_urlsafe(16)
        self.codes[code] = given["code_challenge"]
        return code, given["state"]

    def reply(self, handler: http.server.BaseHTTPRequestHandler) -> bool:
        if handler.path != "/realm/token":
            return False
        body = handler.rfile.read(int(handler.headers["content-length"])).decode()
        given = {name: values[0] for name, values in parse_qs(body).items()}
        challenge = self.codes.pop(given["code"])
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        assert urlsafe_b64encode(digest).decode().rstrip("=") == challenge
        assert given["resource"] == self.resource
        self.tokens += 1
        found = {
            "access_token": self.issuer.token(time.time(), azp=CLIENT),
            "token_type": "Bearer",
            "expires_in": 300,
        }
        data = json.dumps(found).encode()
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
        return True


class Storage:
    """Keeps a client's tokens; the client is one that the issuer knows beforehand."""

    def __init__(self, issuer: Issuer) -> None:
        self.tokens: Any = None
        self.client: Any = shared.OAuthClientInformationFull(
            client_id=CLIENT,
            redirect_uris=[BACK],
            token_endpoint_auth_method="none",
            issuer=issuer.url,
        )

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


def started(directory: Path, issuer: Issuer, audience: str) -> HttpServing:
    given = ("--oidc-issuer", issuer.url, "--oidc-audience", audience, "--oidc-client-id", CLIENT)
    return http_started(directory, filled_with_tokens(directory), *given)


def ended(server: HttpServing) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log.read_text()


@pytest.fixture
def server(tmp_path: Path, issuer: Issuer) -> Iterator[HttpServing]:
    found = started(tmp_path, issuer, AUDIENCE)
    yield found
    ended(found)


@pytest.mark.slow
def test_the_sdks_client_finds_the_issuer_and_comes_in(server: HttpServing, issuer: Issuer) -> None:
    address = f"{server.url}/mcp"
    page = SignOnPage(issuer, address)
    agreed: list[tuple[str, str]] = []

    async def open_page(where: str) -> None:
        agreed.append(page.agreed(where))

    async def came_back() -> Any:
        return shared.AuthorizationCodeResult(code=agreed[-1][0], state=agreed[-1][1])

    async def work() -> None:
        known = shared.OAuthClientMetadata(
            redirect_uris=[BACK],
            client_name="a test",
            token_endpoint_auth_method="none",
        )
        signed_on = oauth.OAuthClientProvider(address, known, Storage(issuer), open_page, came_back)
        with anyio.fail_after(60):
            async with (
                httpx.AsyncClient(auth=signed_on, timeout=30) as web,
                Client(streamable.streamable_http_client(address, http_client=web)) as agent,
            ):
                found = await agent.call_tool("budget", {})
                account = found.structured_content["answer"]["account"]
                assert account == "clinic/ana/ana+sign-on"

    anyio.run(work)
    assert len(agreed) == page.tokens == 1


@pytest.mark.slow
def test_a_refused_login_leads_to_the_metadata(server: HttpServing, issuer: Issuer) -> None:
    where = f'resource_metadata="{server.url}{METADATA}"'
    without = server.ask("POST", "/mcp", LISTED, None, **ACCEPTED)
    assert (without.status, without.headers["www-authenticate"]) == (401, f"Bearer {where}")
    expired = issuer.token(time.time() - 1000)
    for wrong in (expired, "dpsql_wrong", "a.b.c"):
        found = server.ask("POST", "/mcp", LISTED, wrong, **ACCEPTED)
        told = f'Bearer error="invalid_token", {where}'
        assert (found.status, found.headers["www-authenticate"]) == (401, told)
    elsewhere = server.ask("GET", "tables", None, None)
    assert elsewhere.headers["www-authenticate"] == "Bearer"
    metadata = server.ask("GET", METADATA, None, None)
    assert metadata.json == {
        "resource": f"{server.url}/mcp",
        "authorization_servers": [issuer.url],
        "bearer_methods_supported": ["header"],
        "resource_name": "dpsql",
    }
    assert metadata.headers["cache-control"] == "no-store"
    stranger = server.ask("GET", METADATA, None, None, host="evil.example.org")
    assert stranger.status == 421


@pytest.mark.slow
def test_an_audience_that_is_an_address_of_the_tools_is_their_address(
    tmp_path: Path, issuer: Issuer
) -> None:
    server = started(tmp_path, issuer, "https://dpsql.example.org/clinic/mcp")
    try:
        metadata = server.ask("GET", METADATA, None, None)
        assert metadata.json["resource"] == "https://dpsql.example.org/clinic/mcp"
        found = server.ask("POST", "/mcp", LISTED, None, **ACCEPTED)
        path = "/.well-known/oauth-protected-resource/clinic/mcp"
        where = f'resource_metadata="https://dpsql.example.org{path}"'
        assert found.headers["www-authenticate"] == f"Bearer {where}"
    finally:
        ended(server)


@pytest.mark.slow
def test_a_server_without_sign_on_leads_nowhere(tmp_path: Path) -> None:
    server = http_started(tmp_path, filled_with_tokens(tmp_path))
    try:
        assert server.ask("GET", METADATA, None, None).status == 404
        found = server.ask("POST", "/mcp", LISTED, None, **ACCEPTED)
        assert (found.status, found.headers["www-authenticate"]) == (401, "Bearer")
    finally:
        ended(server)
