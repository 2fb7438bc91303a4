"""Tokens of an issuer: those that are taken, and all that are not, against an issuer over HTTP."""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from helpers.failures import fails_with
from helpers.http_serving import HttpServing, Reply, filled_with_tokens, http_started
from helpers.issuing import (
    AUDIENCE,
    CLIENT,
    Issuer,
    encoded,
    forged,
    issuing,
    private_keys,
    public_key,
)

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.server.audit import verify_audit
from dpsql.server.people.issuer_keys import FRESH, PAUSE, USABLE, IssuerKeys
from dpsql.server.people.sign_on import LEEWAY, LONGEST, SignedName, SignOn, SignOnSettings

NOW = 1_800_000_000.0
QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


def sign_on(issuer: Issuer, *, claim: str = "sub", clock: Clock | None = None) -> SignOn:
    settings = SignOnSettings(issuer.url, AUDIENCE, CLIENT, claim)
    return SignOn(settings, IssuerKeys(issuer.url, clock or Clock()), Clock(NOW))


# -- tokens that are taken ------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["rsa", "pss", "ec", "ed"])
def test_a_good_token_names_its_user(issuer: Issuer, key: str) -> None:
    found = sign_on(issuer).checked(issuer.token(NOW, key))
    assert found == SignedName("ana", int(NOW) + 300 + LEEWAY)


@pytest.mark.parametrize(
    "claims",
    [
        {"azp": CLIENT},
        {"client_id": CLIENT},
        {"aud": [AUDIENCE]},
        {"aud": [AUDIENCE, "another"], "azp": CLIENT},
        {"nbf": NOW + LEEWAY - 1},
        {"iat": NOW + LEEWAY - 1},
        {"exp": NOW - LEEWAY + 1},
        {"exp": NOW + 0.5},
        {"iat": NOW - LONGEST + 60, "exp": NOW + 60},
        {"nonce": "x", "groups": ["owners"], "roles": ["owner"], "scope": "all"},
    ],
)
def test_what_a_good_token_may_say(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert sign_on(issuer).checked(issuer.token(NOW, **claims)).user == "ana"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_kinds_of_tokens(issuer: Issuer, kind: str) -> None:
    assert sign_on(issuer).checked(issuer.token(NOW, header={"typ": kind})).user == "ana"


def test_another_claim_names_the_user(issuer: Issuer) -> None:
    by_name = sign_on(issuer, claim="preferred_username")
    assert by_name.checked(issuer.token(NOW, preferred_username="bob")).user == "bob"
    by_mail = sign_on(issuer, claim="email")
    mail = "ana@example.org"
    assert by_mail.checked(issuer.token(NOW, email=mail, email_verified=True)).user == mail
    for verified in (False, None, "true", 1):
        with fails_with("login_failed"):
            by_mail.checked(issuer.token(NOW, email=mail, email_verified=verified))


# -- tokens that are not --------------------------------------------------------------------------


def pem(name: str = "rsa") -> bytes:
    return bytes(
        private_keys()[name]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def hashed(key: bytes) -> Callable[[bytes], bytes]:
    return lambda data: hmac.digest(key, data, "sha256")


def signed(name: str, digest: Any = SHA256) -> Callable[[bytes], bytes]:
    return lambda data: bytes(private_keys()[name].sign(data, padding.PKCS1v15(), digest()))


def with_header(header: dict[str, Any], key: str = "rsa") -> Callable[[Issuer], str]:
    return lambda one: one.token(NOW, key, header)


def with_claims(**claims: Any) -> Callable[[Issuer], str]:
    return lambda one: one.token(NOW, **claims)


def raw(header: object, sign: Callable[[bytes], bytes], **claims: Any) -> Callable[[Issuer], str]:
    return lambda one: forged(header, one.claims(NOW, **claims), sign)


def odd(claims: object) -> Callable[[Issuer], str]:
    """A token whose payload no library writes, rightly signed."""
    return lambda one: forged({"alg": "RS256", "kid": "rsa"}, claims, signed("rsa"))


def altered(one: Issuer) -> str:
    header, _, signature = one.token(NOW).split(".")
    return f"{header}.{encoded(one.claims(NOW, sub='olga'))}.{signature}"


def stolen_key(one: Issuer) -> str:
    return one.token(NOW, "stranger", {"jwk": public_key("stranger")})


RSA = {"alg": "RS256", "kid": "rsa"}
BAD: dict[str, Callable[[Issuer], str]] = {
    # signatures
    "none": raw({"alg": "none", "kid": "rsa"}, lambda data: b""),
    "None in capitals": raw({"alg": "NONE", "kid": "rsa"}, lambda data: b""),
    "none with its signature": raw({"alg": "none", "kid": "rsa"}, signed("rsa")),
    "no algorithm": raw({"kid": "rsa"}, signed("rsa")),
    "no signature": raw(RSA, lambda data: b""),
    "HS256 with the public key": raw({"alg": "HS256", "kid": "rsa"}, hashed(pem())),
    "HS256 with the published number": raw(
        {"alg": "HS256", "kid": "rsa"}, hashed(public_key("rsa")["n"].encode())
    ),
    "HS256 with a key of HMAC": raw(
        {"alg": "HS256", "kid": "oct"}, hashed(b"secret-secret-secret-secret-secret")
    ),
    "HS256 with an RSA key that says so": raw({"alg": "HS256", "kid": "hmac"}, hashed(pem())),
    "none with an RSA key that says so": raw({"alg": "none", "kid": "none"}, lambda data: b""),
    "another hash": raw({"alg": "RS1", "kid": "rsa"}, signed("rsa", SHA1)),
    "another algorithm of the key": lambda one: one.token(NOW, "rsa", {"alg": "RS512"}),
    "PS256 for a key of RS256": lambda one: forged(
        {"alg": "PS256", "kid": "rsa"},
        one.claims(NOW),
        lambda data: bytes(
            private_keys()["rsa"].sign(data, padding.PSS(padding.MGF1(SHA256()), 32), SHA256())
        ),
    ),
    "RS256 for a key of PS256": raw({"alg": "RS256", "kid": "pss"}, signed("pss")),
    "another's key": with_header({"kid": "rsa"}, "stranger"),
    "the name of another key": with_header({"kid": "ec"}),
    "altered": altered,
    # keys
    "a key of its own": stolen_key,
    "an address of keys": with_header({"kid": "rsa", "jku": "http://127.0.0.1:1/keys"}),
    "a chain of its own": with_header({"kid": "rsa", "x5c": ["MIIB"]}),
    "an address of a chain": with_header({"kid": "rsa", "x5u": "http://127.0.0.1:1/chain"}),
    "1024 bits": raw({"alg": "RS256", "kid": "short"}, signed("short")),
    "a key for encryption": with_header({}, "encrypts"),
    "a name of two keys": with_header({}, "twin"),
    "a name of one of two keys": with_header({"kid": "twin"}),
    "an unknown key": with_header({"kid": "nobody"}),
    "no name of a key": lambda one: forged({"alg": "RS256"}, one.claims(NOW), signed("rsa")),
    "a number as the name": raw({"alg": "RS256", "kid": 7}, signed("rsa")),
    "a path as the name": with_header({"kid": "../../etc/passwd"}),
    # headers
    "critical extensions": with_header({"crit": ["exp"]}),
    "unknown extensions": raw({**RSA, "crit": ["x"], "x": 1}, signed("rsa")),
    "an unencoded payload": with_header({"b64": False, "crit": ["b64"]}),
    "compressed": with_header({"zip": "DEF"}),
    "another kind": with_header({"typ": "logout+jwt"}),
    "a kind that is no text": raw({**RSA, "typ": ["JWT"]}, signed("rsa")),
    "another content": with_header({"cty": "JWT"}),
    # claims
    "another issuer": with_claims(iss="https://evil.example.org"),
    "an issuer with a slash": lambda one: one.token(NOW, iss=f"{one.url}/"),
    "no issuer": with_claims(iss=None),
    "several issuers": lambda one: one.token(NOW, iss=None) and odd_issuers(one),
    "another audience": with_claims(aud="wiki"),
    "no audience": with_claims(aud=None),
    "an empty audience": with_claims(aud=[]),
    "other audiences": with_claims(aud=["wiki", "chat"]),
    "several audiences and no client": with_claims(aud=[AUDIENCE, "wiki"]),
    "another client": with_claims(azp="wiki"),
    "another client by its other name": with_claims(client_id="wiki"),
    "two clients": with_claims(azp=CLIENT, client_id="wiki"),
    "a list of clients": with_claims(azp=[CLIENT]),
    "expired": with_claims(exp=NOW - LEEWAY),
    "expired long ago": with_claims(iat=NOW - 900, exp=NOW - 600),
    "no end": with_claims(exp=None),
    "an end in words": with_claims(exp=str(int(NOW) + 300)),
    "an end that is true": with_claims(iat=0, exp=True),
    "not yet": with_claims(nbf=NOW + LEEWAY + 1),
    "a beginning in words": with_claims(nbf="now"),
    "a beginning that is null": lambda one: odd({**one.claims(NOW), "nbf": None})(one),
    "issued tomorrow": with_claims(iat=NOW + 86_400, exp=NOW + 90_000),
    "no time of issue": with_claims(iat=None),
    "good for years": with_claims(exp=NOW + 86_400 * 365),
    "no end of the numbers": lambda one: odd({**one.claims(NOW), "exp": float("inf")})(one),
    "no number": lambda one: odd({**one.claims(NOW), "iat": float("nan")})(one),
    "more than a number": lambda one: odd({**one.claims(NOW), "exp": 10**400})(one),
    # users
    "no user": with_claims(sub=None),
    "an empty user": with_claims(sub=""),
    "a user in capitals": with_claims(sub="Ana"),
    "a long user": with_claims(sub="a" * 64),
    "a list of users": lambda one: odd({**one.claims(NOW), "sub": ["ana"]})(one),
    "half of a surrogate pair": lambda one: one.token(NOW, sub="ana\ud800"),
    "a user with a zero byte": lambda one: one.token(NOW, sub="ana\0"),
    # forms
    "two parts": lambda one: one.token(NOW).rpartition(".")[0],
    "no base64": lambda one: "a.!.c",
    "empty parts": lambda one: "..",
    "a payload that is a list": odd(["ana"]),
    "a payload that is no JSON": odd(b"ana"),
    "a payload nested without end": odd(b"[" * 3_000),
    "a header that is a list": raw(["RS256"], signed("rsa")),
    "a header nested without end": raw(b"[" * 3_000, signed("rsa")),
    "letters beyond ASCII": lambda one: f"é.{one.token(NOW)[2:]}",
}


def odd_issuers(one: Issuer) -> str:
    return odd({**one.claims(NOW), "iss": [one.url]})(one)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Issuer, SignOn]]:
    with issuing() as found:
        yield found, sign_on(found)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_token_is_refused_like_any_other(shared: tuple[Issuer, SignOn], name: str) -> None:
    issuer, checks = shared
    before = len(issuer.asked)
    with fails_with("login_failed"):
        checks.checked(BAD[name](issuer))
    assert len(issuer.asked) in (before, 2)  # nothing of a token leads to a request
    assert checks.checked(issuer.token(NOW)).user == "ana"


# -- keys -----------------------------------------------------------------------------------------


def test_keys_are_asked_for_once_a_minute_at_most(issuer: Issuer) -> None:
    clock = Clock()
    checks = sign_on(issuer, clock=clock)
    checks.checked(issuer.token(NOW))
    asked = ["/realm/.well-known/openid-configuration", "/realm/keys"]
    assert issuer.asked == asked
    issuer.keys.append(public_key("next"))
    for _ in range(50):
        with fails_with("login_failed"):
            checks.checked(issuer.token(NOW, "next"))
        with fails_with("login_failed"):
            checks.checked(issuer.token(NOW, "rsa", {"kid": secrets.token_hex(4)}))
    assert issuer.asked == asked
    clock.now += PAUSE
    assert checks.checked(issuer.token(NOW, "next")).user == "ana"
    assert issuer.asked == asked * 2


def test_a_key_that_is_withdrawn_is_no_longer_taken(issuer: Issuer) -> None:
    clock = Clock()
    checks = sign_on(issuer, clock=clock)
    checks.checked(issuer.token(NOW))
    issuer.keys = [public_key("ec")]
    checks.checked(issuer.token(NOW))
    clock.now += FRESH + 1
    with fails_with("login_failed"):
        checks.checked(issuer.token(NOW))
    assert checks.checked(issuer.token(NOW, "ec")).user == "ana"


def refused(handler: http.server.BaseHTTPRequestHandler) -> bool:
    handler.send_error(500)
    return True


def redirected(handler: http.server.BaseHTTPRequestHandler) -> bool:
    if handler.path.startswith("/moved"):
        return False
    handler.send_response(302)
    handler.send_header("location", f"/moved{handler.path}")
    handler.end_headers()
    return True


def replying(data: bytes, length: int | None = None) -> Callable[[Any], bool]:
    def reply(handler: http.server.BaseHTTPRequestHandler) -> bool:
        handler.send_response(200)
        handler.send_header("content-length", str(len(data) if length is None else length))
        handler.end_headers()
        handler.wfile.write(data)
        return True

    return reply


@pytest.mark.parametrize(
    "reply",
    [
        refused,
        redirected,
        replying(b"{}"),
        replying(b"[]"),
        replying(b"no JSON"),
        replying(b"[" * 60_000),
        replying(b'{"issuer": "https://evil.example.org", "jwks_uri": "http://127.0.0.1:1/"}'),
        replying(json.dumps({"keys": [], "more": "x" * 66_000}).encode()),
        replying(b'{"keys": [', 60_000),
    ],
)
def test_an_issuer_that_replies_otherwise_is_away(
    issuer: Issuer, reply: Callable[[Any], bool]
) -> None:
    issuer.reply = reply
    with fails_with("sign_on_unavailable"):
        sign_on(issuer).checked(issuer.token(NOW))
    assert not any(path.startswith("/moved") for path in issuer.asked)


@pytest.mark.parametrize(
    "uri",
    [
        None,
        7,
        "",
        "keys",
        "file:///etc/passwd",
        "ftp://127.0.0.1/keys",
        "http://192.0.2.1/keys",
        "http://user:word@127.0.0.1/keys",
        "http://127.0.0.1:99999/keys",
        "http://127.0.0.1/a b",
    ],
)
def test_keys_are_not_fetched_from_everywhere(issuer: Issuer, uri: object) -> None:
    issuer.metadata = {"jwks_uri": uri}
    with fails_with("sign_on_unavailable"):
        sign_on(issuer).checked(issuer.token(NOW))
    assert len(issuer.asked) == 1


def test_an_issuer_that_is_away_for_a_while_is_not_missed(issuer: Issuer) -> None:
    clock = Clock()
    checks = sign_on(issuer, clock=clock)
    checks.checked(issuer.token(NOW))
    issuer.reply = refused
    clock.now += USABLE - 1
    assert checks.checked(issuer.token(NOW)).user == "ana"
    clock.now += 2
    with fails_with("sign_on_unavailable"):
        checks.checked(issuer.token(NOW))
    issuer.reply = lambda handler: False
    clock.now += PAUSE
    assert checks.checked(issuer.token(NOW)).user == "ana"


def test_while_one_waits_for_keys_others_go_on(issuer: Issuer) -> None:
    clock = Clock()
    checks = sign_on(issuer, clock=clock)
    checks.checked(issuer.token(NOW))
    hangs, goes_on = threading.Event(), threading.Event()

    def slow(handler: http.server.BaseHTTPRequestHandler) -> bool:
        hangs.set()
        goes_on.wait(30)
        return False

    issuer.reply = slow
    clock.now += FRESH + 1
    waiting = threading.Thread(target=checks.checked, args=(issuer.token(NOW),))
    waiting.start()
    assert hangs.wait(30)
    started = time.monotonic()
    assert checks.checked(issuer.token(NOW)).user == "ana"
    assert time.monotonic() - started < 1
    goes_on.set()
    waiting.join()


# -- at a server ----------------------------------------------------------------------------------


def options(issuer: Issuer) -> tuple[str, ...]:
    return (
        *("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE),
        *("--oidc-client-id", CLIENT),
    )


@pytest.fixture
def server(tmp_path: Path, issuer: Issuer) -> Iterator[HttpServing]:
    found = http_started(tmp_path, filled_with_tokens(tmp_path), *options(issuer))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()
    verify_audit(tmp_path / "audit.jsonl")


def test_a_token_of_the_issuer_is_one_of_its_user(server: HttpServing, issuer: Issuer) -> None:
    token = issuer.token(time.time())
    assert server.query(QUESTION, token).status == 200
    assert server.query(QUESTION).json["cost"]["free"]  # ana's own token: the same account
    with dpsql.connect(server.url, token=token, analyst="bob") as con:
        assert con.budget().account == "clinic/bob"
    assert server.ask("GET", "users", token=token).status == 403
    owners = issuer.token(time.time(), sub="olga")
    assert server.ask("GET", "users", token=owners).status == 200
    assert server.query(QUESTION, owners).status == 403
    text = (server.directory / "audit.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    login = next(line for line in lines if line["event"] == "login")
    assert (login["user"], login["token"], login["issuer"]) == ("ana", None, issuer.url)


def tool(server: HttpServing, token: str, name: str, **arguments: object) -> Reply:
    version, capabilities = "2026-07-28", "io.modelcontextprotocol/clientCapabilities"
    meta = {"io.modelcontextprotocol/protocolVersion": version, capabilities: {}}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    routed = {"mcp_protocol_version": version, "mcp_method": "tools/call", "mcp_name": name}
    accept = "application/json, text/event-stream"
    return server.ask("POST", "/mcp", body, token, accept=accept, **routed)


def test_all_tokens_of_a_users_sign_on_are_one_run_of_language_models(
    server: HttpServing, issuer: Issuer
) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    question = "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE cost < {}"
    spent = []
    for number in range(3):
        token = issuer.token(time.time() - number)
        asked = tool(server, token, "ask", sql=question.format(number))
        assert asked.json["result"]["structuredContent"]["refused"] is None
        account = tool(server, token, "budget").json["result"]["structuredContent"]["answer"]
        assert account["account"] == "clinic/ana/ana+sign-on"
        assert account["epsilon_limit"] == 8  # of a run, by the policies
        spent.append(account["epsilon_spent"])
    assert 0 < spent[0] < spent[1] < spent[2]
    now = time.time()
    for token in (
        issuer.token(now, sub="mallory"),
        issuer.token(now, sub="carl"),
        issuer.token(now, exp=now - 100, iat=now - 200),
        *(BAD[kind](issuer) for kind in ("none", "HS256 with the public key", "1024 bits")),
    ):
        assert tool(server, token, "tables").status == 401


def test_who_is_not_enrolled_or_disabled_does_not_come_in(
    server: HttpServing, issuer: Issuer
) -> None:
    now = time.time()
    told = {
        server.ask("GET", "tables", token=token).body
        for token in (
            issuer.token(now, sub="mallory"),
            issuer.token(now, sub="carl"),  # disabled
            issuer.token(now, exp=now - 100, iat=now - 200),
            BAD["HS256 with the public key"](issuer),
            BAD["none"](issuer),
            BAD["1024 bits"](issuer),
            "dpsql_wrong",
        )
    }
    assert len(told) == 1
    assert json.loads(told.pop())["code"] == "login_failed"
    body = {"user": "ana"}
    token = issuer.token(now)
    assert server.ask("GET", "tables", token=token).status == 200
    assert server.ask("POST", "users/disable", body, "olga").status == 200
    assert server.ask("GET", "tables", token=token).status == 401


def test_an_issuer_that_is_away_stops_no_token_of_the_server(
    server: HttpServing, issuer: Issuer
) -> None:
    issuer.reply = refused
    for _ in range(3):
        found = server.ask("GET", "tables", token=issuer.token(time.time()))
        assert (found.status, found.code) == (503, "sign_on_unavailable")
        assert found.headers["retry-after"]
        assert server.ask("GET", "tables").status == 200
    assert len(issuer.asked) == 1
    text = (server.directory / "audit.jsonl").read_text()
    assert "login_refused" not in text  # nobody has failed


def test_a_login_ends_with_its_token(server: HttpServing, issuer: Issuer) -> None:
    token = issuer.token(time.time(), iat=time.time() - 60, exp=time.time() - LEEWAY + 4)
    assert server.ask("GET", "tables", token=token).status == 200
    time.sleep(5)
    assert server.ask("GET", "tables", token=token).status == 401


def test_other_servers_take_no_such_token(tmp_path: Path, issuer: Issuer) -> None:
    found = http_started(tmp_path, filled_with_tokens(tmp_path))
    assert found.ask("GET", "tables", token=issuer.token(time.time())).status == 401
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert issuer.asked == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--oidc-issuer", "http://login.example.org"], "bad_address"),
        (["--oidc-issuer", "https://login.example.org?x=1"], "bad_address"),
        (["--oidc-issuer", "https://login.example.org"], "bad_sign_on"),
        (
            ["--oidc-issuer", "https://login.example.org", "--oidc-audience", "dpsql"],
            "bad_sign_on",
        ),
        (
            [
                *("--oidc-issuer", "https://login.example.org", "--oidc-audience", "dpsql"),
                *("--oidc-client-id", CLIENT),
            ],
            "bad_sign_on",  # without --http
        ),
    ],
)
def test_settings_that_are_not_whole_start_no_server(words: list[str], code: str) -> None:
    found = CliRunner().invoke(cli, ["serve", "-d", "clinic.duckdb", *words])
    assert found.exit_code == 2
    assert code in found.output


def test_tokens_of_the_server_never_look_like_an_issuers() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    settings = SignOnSettings("https://login.example.org", AUDIENCE, CLIENT)
    checks = SignOn(settings, IssuerKeys(settings.issuer))
    assert not checks.takes(f"dpsql_{digest}")


@pytest.mark.parametrize(("uri", "asked"), [("https://a.org/keys", 2), ("http://127.0.0.1:1/", 1)])
def test_an_issuer_elsewhere_has_no_keys_on_this_machine(
    uri: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[object] = []

    def reply(address: object) -> dict[str, Any]:
        addresses.append(address)
        return {"issuer": "https://a.org", "jwks_uri": uri, "keys": []}

    monkeypatch.setattr("dpsql.server.people.issuer_keys._asked_json", reply)
    if asked == 1:
        with fails_with("sign_on_unavailable"):
            IssuerKeys("https://a.org").key("one")
    else:
        assert IssuerKeys("https://a.org").key("one") is None
    assert len(addresses) == asked
