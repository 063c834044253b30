"""Commands on their way to agents and back: each answer goes to the one command that it is for, or to none (B5)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal, Protocol

from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import new_id
from butler.types import Json

MOST_CLOSED = 2000
"""How many commands that are over are remembered, to tell late answers from invented ones."""

Credit = Literal["taken", "late", "unknown"]


class Line(Protocol):
    """One connection of an agent; neither method blocks."""

    def send(self, frame: Json) -> None:
        """Send one frame."""

    def hang_up(self, why: str) -> None:
        """End the connection."""


@dataclass(frozen=True)
class Directive:
    """One command to one agent; `correlation_id` is random, so no one can guess another's."""

    agent_id: str
    agent_name: str
    command: str
    reasoning: str
    action_id: str
    thread_id: str
    run_id: str
    correlation_id: str = field(default_factory=new_id)
    sent_at: str = field(default_factory=stamp)


@dataclass(frozen=True)
class Credited:
    """What became of an answer; `directive` is the command it speaks of, if that is the agent's own."""

    credit: Credit
    directive: Directive | None = None


class Switchboard:
    """The connections of agents, and the commands that wait for an answer. All of it lives in one event loop.

    `is_online` alone may be asked from other threads.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[Line]] = {}
        self._waiting: dict[str, tuple[Directive, asyncio.Future[str]]] = {}
        self._closed: OrderedDict[str, Directive] = OrderedDict()

    def connect(self, agent_id: str, line: Line) -> bool:
        """Take a connection in; the newest one gets the commands. Returns whether the agent was offline before."""
        lines = self._lines.get(agent_id, [])
        self._lines[agent_id] = [*lines, line]
        return not lines

    def leave(self, agent_id: str, line: Line) -> None:
        """A connection has ended. Its commands go on waiting: the agent may come back with the answer."""
        lines = [one for one in self._lines.get(agent_id, ()) if one is not line]
        if lines:
            self._lines[agent_id] = lines
        else:
            self._lines.pop(agent_id, None)

    def cut_off(self, agent_id: str, why: str) -> None:
        """End all connections of an agent."""
        for line in self._lines.get(agent_id, ()):
            line.hang_up(why)

    def is_online(self, agent_id: str) -> bool:
        """Whether the agent has a connection now."""
        return agent_id in self._lines

    @property
    def online(self) -> int:
        """How many agents have a connection now."""
        return len(self._lines)

    async def command(self, directive: Directive, frame: Json, within: float) -> str:
        """Send a command and wait for its answer.

        It is sent once. An agent that connects anew meanwhile is not told again, since it may have begun; but its
        answer counts over whichever connection it comes.

        Args:
            frame: what is sent.
            within: how long to wait, in seconds.

        Raises:
            ButlerError: ``not_found`` when the agent is offline: nothing was sent.
            TimeoutError: there was no answer; whether the agent did it is unknown.
        """
        lines = self._lines.get(directive.agent_id)
        if not lines:
            raise ButlerError("not_found", offline(directive.agent_name))
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[directive.correlation_id] = (directive, answer)
        try:
            lines[-1].send(frame)
            # Not `asyncio.timeout`: it could throw away an answer that came in the last moment.
            await asyncio.wait([answer], timeout=within)
            if not answer.done():
                raise TimeoutError
            return answer.result()
        finally:
            answer.cancel()
            del self._waiting[directive.correlation_id]
            self._closed[directive.correlation_id] = directive
            if len(self._closed) > MOST_CLOSED:
                self._closed.popitem(last=False)

    def answer(self, agent_id: str, correlation_id: str, text: str) -> Credited:
        """Credit an answer to the one open command of this very agent that it names; or to none."""
        directive, waiter = self._waiting.get(correlation_id, (None, None))
        if directive is None:
            closed = self._closed.get(correlation_id)
            if closed is None or closed.agent_id != agent_id:
                return Credited("unknown")
            # Noted once: an agent that goes on about it can't fill the record.
            del self._closed[correlation_id]
            return Credited("late", closed)
        if directive.agent_id != agent_id or waiter is None:
            return Credited("unknown")
        if waiter.done():
            # The first answer counts, or the time was over in this very moment.
            return Credited("late", directive)
        waiter.set_result(text)
        return Credited("taken", directive)


def offline(name: str) -> str:
    """What is said of a command to an agent that is not connected."""
    return f"The agent {name!r} is offline, so nothing was sent. Start it, or choose another one with list_agents."
