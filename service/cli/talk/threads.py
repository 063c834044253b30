"""Threads as a talk needs them: the newest, the last lines of one, and what changed in it from elsewhere."""

from __future__ import annotations

from butler.errors import ButlerError
from butler.types import Json
from service.cli.remote import Remote

SHOWN_LINES = 6
MOST_MISSED = 100
MOST_RUNS = 5


def recent(server: Remote, count: int) -> list[Json]:
    """The threads that changed last."""
    items: list[Json] = server.get("/threads", limit=count)["items"]
    return items


def newest(server: Remote) -> str:
    """The thread that changed last. Raises ButlerError ``not_found``."""
    items = recent(server, 1)
    if not items:
        raise ButlerError("not_found", "There are no threads yet.")
    return str(items[0]["thread_id"])


class Thread:
    """The thread that is open, if one is; knows which lines of it were shown."""

    def __init__(self, server: Remote, thread_id: str | None = None) -> None:
        self._server = server
        self.thread_id = thread_id
        self._shown: set[str] = set()
        self._stamp: tuple[str, str] | None = None

    def is_now(self, thread_id: str) -> None:
        """It is that one from here on."""
        if thread_id != self.thread_id:
            self.thread_id = thread_id
            self._shown.clear()
            self._stamp = None

    def state(self, *, required: bool = False) -> Json | None:
        """The thread as lists show it; None where none is open. Raises ButlerError ``not_found``."""
        if self.thread_id is None:
            if required:
                raise ButlerError("not_found", "No thread is open.")
            return None
        return self._server.get(f"/threads/{self.thread_id}")

    def seen_up_to_now(self) -> None:
        """All that is in the transcript now was shown."""
        if self.thread_id is None:
            return
        self._stamp = _stamp(self.state() or {})
        self._shown.update(item["id"] for item in self._lines(MOST_MISSED))

    def has_news(self) -> bool:
        """Whether the thread has changed since it was seen."""
        if self.thread_id is None or self._stamp is None:
            return False
        state = self.state() or {}
        return _stamp(state) != self._stamp

    def missed(self, *, first: bool = False) -> list[Json]:
        """The lines that were not shown yet, oldest first; of a thread just opened the last few."""
        lines = [item for item in self._lines(MOST_MISSED) if item["id"] not in self._shown]
        self._shown.update(item["id"] for item in lines)
        return [item for item in lines if item["text"].strip()][-SHOWN_LINES if first else 0 :]

    def at_work(self) -> str | None:
        """The run of this thread that is running, if it said something lately."""
        runs = dict.fromkeys(str(item["run_id"]) for item in reversed(self._lines(MOST_MISSED)) if item.get("run_id"))
        for run_id in list(runs)[:MOST_RUNS]:
            if self._server.get(f"/runs/{run_id}")["status"] == "running":
                return run_id
        return None

    def _lines(self, count: int) -> list[Json]:
        items: list[Json] = self._server.get(f"/threads/{self.thread_id}/messages", limit=count)["items"]
        return items


def _stamp(state: Json) -> tuple[str, str]:
    return str(state.get("updated_at")), str(state.get("status"))
