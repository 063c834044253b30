"""A running server as the command line sees it: requests, pages, and errors in words (E1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx

from butler.errors import STATUS_OF_CODE, ButlerError
from butler.types import Json
from service.cli.place import Place, find_place
from service.cli.plain import visible
from service.cli.sse import read_events

TIMEOUT = httpx.Timeout(60.0, connect=5.0)
STREAM_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""The server says something at least every 15 s, but a command may take a while before its first word."""
PAGE = 200
LONGEST_HOLD_OFF = 30.0
RESULT_SECONDS = 3.0
STANDARD_MEMBERS = frozenset({"type", "title", "status", "code", "detail"})
CODE_OF_STATUS = {401: "unauthorized", 403: "forbidden", 404: "not_found", 413: "too_large", 422: "invalid_request",
                  429: "rate_limited"}  # fmt: skip


class Remote:
    """Speaks to one server with one token."""

    def __init__(self, place: Place, client: httpx.Client) -> None:
        self.place = place
        self._client = client

    def get(self, path: str, **params: str | int) -> Json:
        """Raises ButlerError: the server's own, or ``unreachable``."""
        return self._request("GET", path, params={name: value for name, value in params.items() if value != ""})

    def post(self, path: str, body: Any) -> Json:
        """Raises ButlerError as `get`; ``answer_lost`` when the server may have carried it out without saying so."""
        return self._request("POST", path, json=body)

    def delete(self, path: str) -> None:
        """Raises ButlerError as `post`."""
        self._request("DELETE", path)

    def pages(self, path: str, **params: str | int) -> Iterator[Json]:
        """Every item of a list, page by page."""
        cursor = ""
        while True:
            page = self.get(path, limit=PAGE, cursor=cursor, **params)
            yield from page["items"]
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return

    def look_again(self) -> None:
        """Find the server anew: one that was started again may have another address."""
        try:
            self.place = find_place()
        except ButlerError as error:
            # It is down just now; the old address is as good as none.
            if error.code != "unreachable":
                raise

    def result_of(self, run_id: str, action_id: str) -> str | None:
        """What a call gave, from the run's events; None where they are not to be had."""
        end = time.monotonic() + RESULT_SECONDS
        url, options = f"{self.place.url}/runs/{run_id}/events", {"accept": "text/event-stream"}
        try:
            with self._client.stream("GET", url, headers=options, timeout=RESULT_SECONDS) as response:
                if response.status_code != 200:
                    return None
                for event in read_events(response.iter_bytes()):
                    if time.monotonic() > end:
                        break
                    if event.data.get("action_id") == action_id and event.data.get("phase") in ("done", "failed"):
                        return None if event.data.get("result") is None else str(event.data["result"])
        except (httpx.TransportError, ValueError):
            return None
        return None

    @contextmanager
    def events(self, method: str, path: str, body: Any = None, last_seen: int = 0) -> Iterator[Iterator[bytes]]:
        """Open an event stream; gives its bytes as they come, until the server ends it or the connection breaks.

        Raises: ButlerError as `post`; httpx.TransportError while it is read.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(last_seen)} if last_seen else {})
        held_off = 0.0
        while True:
            request = self._client.build_request(
                method, self.place.url + path, json=body, headers=headers, timeout=STREAM_TIMEOUT
            )
            response = self._sent(method, partial(self._client.send, request, stream=True))
            try:
                if response.status_code == 429 and held_off < LONGEST_HOLD_OFF:
                    wait = _seconds(response.headers.get("retry-after"))
                    held_off += wait
                    time.sleep(wait)
                    continue
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    yield response.iter_bytes()
                    return
                response.read()
                self._read(response)
                raise ButlerError("internal", f"{self.place.url}{path} gave no event stream.")
            finally:
                response.close()

    def _request(self, method: str, path: str, **options: Any) -> Json:
        held_off = 0.0
        while True:
            response = self._send(method, path, **options)
            if response.status_code != 429 or held_off >= LONGEST_HOLD_OFF:
                return self._read(response)
            wait = _seconds(response.headers.get("retry-after"))
            held_off += wait
            time.sleep(wait)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._sent(method, lambda: self._client.request(method, self.place.url + path, **options))

    def _sent(self, method: str, send: Callable[[], httpx.Response]) -> httpx.Response:
        try:
            return send()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
            raise ButlerError(
                "unreachable",
                f"No Butler answers at {visible(self.place.url)} (from {self.place.url_from}): {visible(str(error))}. "
                "Start it with `butler serve`, or say with BUTLER_URL where it is.",
            ) from None
        except httpx.TransportError as error:
            said = visible(str(error)) or type(error).__name__
            if method == "GET":
                raise ButlerError(
                    "unreachable", f"The connection to {self.place.url} broke: {said}. Try again."
                ) from None
            raise ButlerError(
                "answer_lost",
                f"The connection to {self.place.url} broke before the answer came ({said}). It may have been carried "
                "out or not: look with `butler approvals --all`. Asking again does no harm.",
            ) from None

    def _read(self, response: httpx.Response) -> Json:
        if response.status_code == 204:
            return {}
        kind = response.headers.get("content-type", "").split(";")[0]
        body: Any = None
        if kind in ("application/json", "application/problem+json"):
            try:
                body = response.json()
            except ValueError:
                body = None
        if not isinstance(body, dict) or (response.is_error and not isinstance(body.get("detail"), str)):
            raise ButlerError(
                "unreachable",
                f"What answers at {self.place.url} (from {self.place.url_from}) is no Butler: status "
                f"{response.status_code}, {visible(kind) or 'no content type'}. Check the address.",
            )
        if not response.is_error:
            return body
        raise self.problem(body, response.status_code)

    def problem(self, said: Json, status: int = 0) -> ButlerError:
        """The error that a server's problem is, its text made safe to print."""
        code, detail = said.get("code"), visible(str(said.get("detail")))
        if code not in STATUS_OF_CODE:
            code = CODE_OF_STATUS.get(status, "internal")
        if status == 401:
            detail += f" The token came from {self.place.token_from}; the server is {self.place.url}."
        extras = {name: value for name, value in said.items() if name not in STANDARD_MEMBERS}
        return ButlerError(str(code), detail, problem=extras)


@contextmanager
def remote() -> Iterator[Remote]:
    """The server of this working directory's configuration, for one command."""
    place = find_place()
    headers = {"Authorization": f"Bearer {place.token.get_secret_value()}", "Accept": "application/json",
               "X-Butler-Face": "shell"}  # fmt: skip
    # What goes to this machine goes through no proxy; a redirect could carry the token elsewhere.
    with httpx.Client(
        headers=headers, timeout=TIMEOUT, trust_env=not place.is_loopback, follow_redirects=False
    ) as client:
        yield Remote(place, client)


def _seconds(retry_after: str | None) -> float:
    text = (retry_after or "").strip()
    return min(max(float(text), 0.1), LONGEST_HOLD_OFF) if text.isdecimal() else 1.0
