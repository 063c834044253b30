"""Runs told to people's sockets: the text as it comes, the whole reply, and one end for each stream (B3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from butler.redact import Redactor
from butler.types import Json
from service.events import RunLog

MOST_TALKS = 2000
MOST_NAMES = 1000
PROGRESS = frozenset({"tool", "maid", "notice"})
"""Events that are told beside the text: what is being done, so that long work shows that it goes on (E5)."""
CANCELLED = "This turn was cancelled."

Send = Callable[[str, Json], None]
"""Sends a frame to all connections of a user."""


@dataclass
class Talk:
    """A run and who hears of it. Each stretch between decisions is one stream."""

    run_id: str
    thread_id: str
    users: set[str]
    correlation_id: str | None = None
    stream_id: str | None = None
    text: list[str] = field(default_factory=list)
    shown: bool = False
    """Whether the text of this stretch went out as a CHAT already."""
    told: bool = False
    """Whether anything of this stream went out."""
    waiting: list[str] = field(default_factory=list)
    """Actions that wait for a decision; as in the seed, what follows one streams under its id."""
    names: set[str] = field(default_factory=set)
    stretches: int = 0


class Relay:
    """Turns the events of runs into frames. Nothing here waits, so what happens first is told first."""

    def __init__(self, send: Send, send_after_requests: Send, redactor: Redactor) -> None:
        """`send_after_requests` sends once the approval requests that are new have been sent."""
        self._send = send
        self._send_after_requests = send_after_requests
        self._redactor = redactor
        self._talks: OrderedDict[str, Talk] = OrderedDict()
        self._threads: dict[str, str] = {}

    def follow_thread(self, thread_id: str, user_id: str) -> None:
        """Tell that user of every run of a thread, whichever face began it."""
        self._threads[thread_id] = user_id

    def hear(self, log: RunLog, event: str, data: Json) -> None:
        """An event of a run."""
        talk = self._talks.get(log.run_id)
        if talk is None and event == "run" and (user_id := self._threads.get(data["thread_id"])) is not None:
            talk = self._keep(Talk(log.run_id, data["thread_id"], {user_id}))
        if talk is not None:
            self._tell(talk, event, data)

    def join(
        self, log: RunLog, position: int, *, thread_id: str, user_id: str, correlation_id: str | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        """Tell that user of this run too, from `position` of its log on; `name` is the id of a stream that begins."""
        talk = self._talks.get(log.run_id)
        if talk is None:
            talk = self._keep(Talk(log.run_id, thread_id, {user_id}, correlation_id, waiting=[name] if name else []))
            self._replay(talk, log, position)
            return
        talk.correlation_id = correlation_id or talk.correlation_id
        if name is not None and not talk.told and name not in talk.names and talk.stream_id is not None:
            talk.stream_id = name
            talk.names.add(name)
        if user_id in talk.users:
            return
        if talk.stream_id is None and log.outcome is not None:
            # The stretch was over before anybody could join it.
            self._replay(Talk(log.run_id, thread_id, {user_id}, waiting=[name] if name else []), log, position)
        talk.users.add(user_id)
        self.catch_up(user_id, [talk])

    def forget(self, user_id: str) -> None:
        """Tell that user no more of runs that it joined, but for those of its own lasting thread."""
        for talk in self._talks.values():
            if self._threads.get(talk.thread_id) != user_id:
                talk.users.discard(user_id)

    def catch_up(self, user_id: str, talks: Iterable[Talk] | None = None, send: Send | None = None) -> None:
        """Give the text so far of the streams that are open to somebody who has just come."""
        for talk in talks if talks is not None else list(self._talks.values()):
            if talk.stream_id is not None and user_id in talk.users and talk.text:
                frame = self._frame(talk, "CHAT_STREAM", "".join(talk.text))
                (send or self._send)(user_id, {**frame, "target_id": user_id})

    def _keep(self, talk: Talk) -> Talk:
        self._talks[talk.run_id] = talk
        if len(self._talks) > MOST_TALKS:
            over = next((one for one in self._talks.values() if one.stream_id is None), None)
            if over is not None:
                del self._talks[over.run_id]
        return talk

    def _replay(self, talk: Talk, log: RunLog, position: int) -> None:
        for event, data in log.events_from(position):
            self._tell(talk, event, data)

    def _tell(self, talk: Talk, event: str, data: Json) -> None:
        match event:
            case "run":
                # Also in the midst of a stretch: something was decided before it could park.
                self._close(talk)
                self._begin(talk)
            case "token":
                self._begin(talk)
                talk.text.append(data["text"])
                self._to_all(talk, "CHAT_STREAM", data["text"])
            case event if event in PROGRESS:
                self._begin(talk)
                self._to_all(talk, "CHAT_STREAM", "", event=event, data=self._redactor.json(data))
            case "approval":
                # What was said on the way stands before the request that it leads to.
                self._say(talk, "".join(talk.text))
                talk.waiting.append(data["action_id"])
            case "end":
                self._end(talk, data)

    def _begin(self, talk: Talk) -> None:
        if talk.stream_id is not None:
            return
        talk.stretches += 1
        name = talk.waiting.pop(0) if talk.waiting else talk.run_id
        talk.stream_id = name if name not in talk.names else f"{talk.run_id}:{talk.stretches}"
        if len(talk.names) < MOST_NAMES:
            talk.names.add(talk.stream_id)
        talk.text, talk.shown, talk.told = [], False, False

    def _say(self, talk: Talk, text: str) -> None:
        if text.strip() and not talk.shown:
            talk.shown = True
            self._to_all(talk, "CHAT", self._redactor.text(text))

    def _end(self, talk: Talk, outcome: Json) -> None:
        if talk.stream_id is None:
            return
        parked = outcome["status"] == "parked"
        if parked:
            talk.waiting = [one["action_id"] for one in outcome["approvals"]]
            self._say(talk, "".join(talk.text))
        else:
            talk.shown = False
            self._say(talk, _last_word(outcome))
        self._to_all(talk, "CHAT_STREAM_END", "", after_requests=parked)
        talk.stream_id = None

    def _close(self, talk: Talk) -> None:
        if talk.stream_id is not None and talk.told:
            self._to_all(talk, "CHAT_STREAM_END", "")
        talk.stream_id = None

    def _to_all(self, talk: Talk, kind: str, text: str, *, after_requests: bool = False, **more: Any) -> None:
        talk.told = True
        frame = self._frame(talk, kind, text) | more
        send = self._send_after_requests if after_requests else self._send
        for user_id in talk.users:
            send(user_id, {**frame, "target_id": user_id})

    @staticmethod
    def _frame(talk: Talk, kind: str, text: str) -> Json:
        named = {"correlation_id": talk.correlation_id} if talk.correlation_id else {}
        return {
            "type": kind, "payload": text, "stream_id": talk.stream_id, "thread_id": talk.thread_id,
            "run_id": talk.run_id, **named,
        }  # fmt: skip


def _last_word(outcome: Json) -> str:
    """The whole reply; of a turn that was cancelled or failed without a word, what is said instead."""
    reply = str(outcome["reply"])
    if outcome["status"] == "cancelled":
        return f"{reply}\n\n({CANCELLED})" if reply.strip() else CANCELLED
    if not reply.strip() and outcome["error"]:
        return f"I'm sorry, I could not finish this: {outcome['error']['detail']}"
    return reply
