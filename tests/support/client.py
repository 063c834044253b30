"""A client of the HTTP contract for tests: thin, so that what a test sends is what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.polling import wait_until
from tests.support.sse import EventStream

Json = dict[str, Any]


class Client:
    """Speaks to a server as one user; asks for the address anew each time, since restarts change it.

    Args:
        address: gives the server's base URL.
        token: the user's bearer token; None sends none.
    """

    def __init__(self, address: Callable[[], str], token: str | None) -> None:
        self.address = address
        self.token = token
        self._http = httpx.Client(timeout=30.0, trust_env=False)

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request with the user's token."""
        headers = dict(options.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        return self._http.request(method, self.address() + path, headers=headers, **options)

    def get(self, path: str, **params: Any) -> Json:
        """GET what must be there."""
        return good(self.request("GET", path, params=params))

    def post(self, path: str, body: Any) -> httpx.Response:
        """POST a JSON body, whatever comes of it."""
        return self.request("POST", path, json=body)

    def chat(self, message: str, thread_id: str | None = None, **fields: Any) -> Json:
        """Say something that must be accepted; gives the Outcome (or the 202 body)."""
        body: Json = {"message": message, **fields}
        if thread_id is not None:
            body["thread_id"] = thread_id
        return good(self.post("/chat", body))

    def resume(self, thread_id: str, *decisions: Json, **fields: Any) -> httpx.Response:
        """POST decisions in Butler's own form."""
        return self.post(f"/threads/{thread_id}/resume", {"decisions": list(decisions), **fields})

    def decided(self, thread_id: str, *decisions: Json, **fields: Any) -> Json:
        """POST decisions that must be accepted; gives the Outcome."""
        return good(self.resume(thread_id, *decisions, **fields))

    @contextmanager
    def stream(self, method: str, path: str, body: Any = None, **headers: str) -> Iterator[EventStream]:
        """Open an event stream that must be granted."""
        sent = {"Accept": "text/event-stream", "Authorization": f"Bearer {self.token}", **headers}
        with self._http.stream(method, self.address() + path, json=body, headers=sent) as response:
            if response.status_code != 200:
                response.read()
            assert response.status_code == 200, response.text
            assert response.headers["content-type"].startswith("text/event-stream"), response.headers
            yield EventStream(response)

    def approvals(self, thread_id: str, status: str | None = "pending") -> list[Json]:
        """The approvals of a thread by status (None: every status)."""
        params = {"thread_id": thread_id} | ({"status": status} if status else {})
        items: list[Json] = self.get("/approvals", **params)["items"]
        return items

    def approval(self, action_id: str) -> Json:
        """One approval as it stands now."""
        return self.get(f"/approvals/{action_id}")

    def transcript(self, thread_id: str) -> list[tuple[str, str]]:
        """The visible transcript as (role, text) of user and assistant."""
        items = self.get(f"/threads/{thread_id}/messages", limit=200)["items"]
        return [(item["role"], item["text"]) for item in items if item["role"] != "tool"]

    def when_status(self, thread_id: str, status: str, seconds: float = 60.0) -> Json:
        """Wait until the thread has that status; gives the thread."""

        def probe() -> Json | None:
            thread = self.get(f"/threads/{thread_id}")
            return thread if thread["status"] == status else None

        return wait_until(probe, f"thread {thread_id} is {status}", seconds)

    def when_run(self, run_id: str, *statuses: str, seconds: float = 60.0) -> Json:
        """Wait until the run has one of the statuses; gives its Outcome."""

        def probe() -> Json | None:
            outcome = self.get(f"/runs/{run_id}")
            return outcome if outcome["status"] in statuses else None

        return wait_until(probe, f"run {run_id} is {' or '.join(statuses)}", seconds)


def good(response: httpx.Response) -> Json:
    """The JSON of a response that must be 200 or 202."""
    assert response.status_code in (200, 202), f"{response.status_code} {response.text}"
    body: Json = response.json()
    return body


def refused(response: httpx.Response, status: int, code: str) -> Json:
    """Check a refusal's status, media type, members and code; gives the problem."""
    assert response.status_code == status, f"{response.status_code} {response.text}"
    assert response.headers["content-type"].split(";")[0] == "application/problem+json"
    problem: Json = response.json()
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert problem["type"] == "about:blank"
    assert isinstance(problem["title"], str) and problem["title"]
    assert isinstance(problem["detail"], str) and problem["detail"]
    assert "Traceback" not in response.text
    return problem
