"""The door of the HTTP face: tokens, same origin, size and rate limits, headers; before any route (F2)."""

from __future__ import annotations

import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from butler.errors import ButlerError
from butler.people import Principal
from service.auth import Doorkeeper
from service.http.problems import internal
from service.http.signing_in import refused_at_the_door

COOKIE = "butler_token"
OPEN_PATHS = frozenset({"/healthz", "/", "/login", "/metrics"})
LINKS = "/decide/"
ASSETS = "/web/"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_BODY_BYTES = 4 * 1024 * 1024
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)

KEPT_NOWHERE = (*HEADERS, (b"cache-control", b"no-store"))


class RateLimit:
    """A token bucket per key; the keys that were quiet the longest are forgotten first."""

    MOST_KEYS = 4096

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Spend one request. Raises ButlerError ``rate_limited``."""
        moment = time.monotonic()
        left, before = self._buckets.pop(key, (float(self._burst), moment))
        left = min(self._burst, left + (moment - before) * self._per_second)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, moment)
        if len(self._buckets) > self.MOST_KEYS:
            self._buckets.popitem(last=False)
        if not allowed:
            raise ButlerError("rate_limited", "Too many requests in a short time; wait a few seconds and try again.")


class Door:
    """ASGI middleware: puts the caller into ``scope["state"]["person"]`` or answers the request itself."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper, failures: RateLimit) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._calls = RateLimit(per_second=1000, burst=5000)
        self._failures = failures
        self._links = RateLimit(per_second=10, burst=300)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it with a problem response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                present = {name for name, _ in message.get("headers", ())}
                # Whatever is told may hold what only one person may read; the styles of the page may be kept.
                wanted = HEADERS if scope["path"].startswith(ASSETS) else KEPT_NOWHERE
                extra = [(name, value) for name, value in wanted if name not in present]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        try:
            headers = Headers(scope=scope)
            refuse_large(headers)
            person = await self._person(scope, headers)
            scope.setdefault("state", {})["person"] = person
            inner = limited(receive)
        except ButlerError as error:
            await refused_at_the_door(error, scope)(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, inner, send_guarded)
        except Exception as error:
            # Answered here, below the server: it would log the trace again and drop the client's connection.
            response = internal(error, scope["method"], scope["path"])
            if started:
                raise
            await response(scope, receive, send_guarded)

    async def _person(self, scope: Scope, headers: Headers) -> Principal | None:
        client = (scope.get("client") or ("?",))[0]
        if scope["path"].startswith(LINKS):
            # Whoever has the link needs no token; who guesses at links is slowed down like who guesses at tokens.
            self._links.take(client)
        if not needs_token(scope["path"]):
            return None
        token, by_cookie = presented_token(headers)
        try:
            person = await self._doorkeeper.who(token)
        except ButlerError:
            self._failures.take(address_of(scope))
            raise
        if by_cookie and scope["method"] not in SAFE_METHODS:
            refuse_other_origin(headers)
        if person.role == "agent":
            raise ButlerError("forbidden", "An agent speaks on the agent socket only; HTTP is for people.")
        self._calls.take(person.user_id)
        return person


def failed_attempts() -> RateLimit:
    """How many wrong tokens one address may try, at the door and at the sign-in page together."""
    return RateLimit(per_second=10, burst=300)


def address_of(scope: Scope) -> str:
    """Where a request comes from, for limits."""
    return str((scope.get("client") or ("?",))[0])


def needs_token(path: str) -> bool:
    """Whether the door asks for a token on that path; what is open checks for itself whom it shows what."""
    return path not in OPEN_PATHS and not path.startswith((ASSETS, LINKS))


def presented_token(headers: Headers) -> tuple[str, bool]:
    """The token that a request carries, and whether it came as the browser's cookie."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme:
        return (token.strip() if scheme.lower() == "bearer" else ""), False
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        morsel = None
    return (morsel.value if morsel else ""), True


def refuse_other_origin(headers: Headers) -> None:
    """A page of another origin may not act with the browser's cookie. Raises ButlerError ``forbidden``."""
    origin = headers.get("origin")
    if origin is not None and not is_own(origin, headers):
        raise ButlerError("forbidden", "This request comes from another site's page; it was not carried out.")


def is_own(origin: str, headers: Headers) -> bool:
    """Whether an origin is the host that the request was sent to; what is no address is nobody's."""
    try:
        host = urlsplit(origin).netloc
    except ValueError:
        return False
    return bool(host) and host == headers.get("host")


def refuse_large(headers: Headers) -> None:
    """Raises ButlerError ``too_large`` for a body that says it is over the limit."""
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST_BODY_BYTES:
        raise too_large()


def too_large() -> ButlerError:
    """The error for a body over the limit."""
    return ButlerError("too_large", f"The body is over {MOST_BODY_BYTES // (1024 * 1024)} MiB; send less at once.")


def limited(receive: Receive) -> Receive:
    """A `receive` that stops reading a body of unstated length at the limit."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BODY_BYTES:
            raise too_large()
        return message

    return counted


def caller(request: Any) -> Principal:
    """The person behind a request that passed the door."""
    person = request.state.person
    assert isinstance(person, Principal)
    return person


def face(request: Any) -> str:
    """The face that a request says it comes from, for the audit; a hint of the caller's, not a proof."""
    return "shell" if request.headers.get("x-butler-face") == "shell" else "http"
