"""One attempt of an agent over the Agent Client Protocol, from its start to the end of all its processes (D4, D11)."""

from __future__ import annotations

import asyncio
import codecs
from contextlib import suppress
from typing import Any, TypeVar

import acp
from acp import RequestError
from acp.core import ClientSideConnection
from pydantic import ValidationError

from butler.maids.acp.client import AgentClient
from butler.maids.acp.desk import Desk
from butler.maids.acp.files import TreeFiles
from butler.maids.acp.halting import Halt
from butler.maids.acp.offer import Offer
from butler.maids.acp.places import Place
from butler.maids.acp.session import SessionRefused, is_provider_trouble, open_session, reason_of
from butler.maids.acp.terminals import Terminals, Wrap
from butler.maids.acp.updates import Turn
from butler.maids.acp.wire import Wire
from butler.maids.contract import (
    Finished,
    Interrupting,
    Launch,
    MaidEvent,
    Output,
    SessionOpened,
    Started,
    Stop,
    Tokens,
    Watcher,
)
from butler.maids.launching.processes import AT_ONCE, Graces, LaunchFailed, MaidProcess, spawn
from butler.maids.launching.templates import fill_command

CANCEL_SECONDS = 5.0
"""How long an agent may take to answer a cancelled turn."""
SEND_SECONDS = 1.0
"""How long a message may take to leave; an agent that reads nothing does not keep us."""
LAST_WORDS_SECONDS = 1.0
STDERR_KEPT = 16_384
WIRE_SHARE = 16
"""The protocol may carry that many times the bytes of text that are allowed: files go through it too."""
T = TypeVar("T")


class Attempt:
    """Runs an agent once. Whatever ends it, `run` returns with no process left.

    Args:
        load: the id of an earlier session that the agent is to go on with.
    """

    def __init__(
        self, launch: Launch, watcher: Watcher, offer: Offer, wrap: Wrap, graces: Graces, load: str | None
    ) -> None:
        self.halt = Halt()
        self._launch = launch
        self._watcher = watcher
        self._offer = offer
        self._wrap = wrap
        self._graces = graces
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._began = self._heard = self._loop.time()
        self._place = Place.of(launch.tree, launch.home)
        self._turn = Turn(self._place, lambda terminal_id: self._terminals.tail(terminal_id))
        self._desk = Desk(watcher, self._place, self.halt, self._beat)
        self._terminals = Terminals(launch, self._place, self._desk, self._count_text, wrap)
        self._listening = False
        self._prompt: asyncio.Task[acp.PromptResponse] | None = None
        self._session_id = ""
        self._stderr_tail = ""
        self._text_bytes = 0
        self._wire_bytes = 0
        self._stop_reason: str | None = None
        self._tokens = Tokens()
        self._exit_code: int | None = None
        self._left_behind = 0

    async def run(self) -> Finished:
        """Start, converse, end. Raises what the watcher raised, once everything has ended."""
        try:
            argv = tuple(self._wrap(fill_command(self._launch), self._place.tree))
            environment, mark = self._launch.environment, self._launch.attempt_id
            cwd = self._place.tree
            process = await spawn(argv, attempt_id=mark, environment=environment, cwd=cwd, stdin="pipe")
        except LaunchFailed as error:
            self.halt.limit("launch_error", str(error))
            return self._finished()
        listener = asyncio.ensure_future(self._listen(process.stderr))
        interrupter = asyncio.ensure_future(self._interrupt())
        try:
            self._tell(Started(process.pid, process.argv))
            connection = self._connect(process)
            try:
                await self._converse(connection)
            finally:
                await self._end(connection, process)
        finally:
            interrupter.cancel()
            await asyncio.wait({listener}, timeout=LAST_WORDS_SECONDS)
            listener.cancel()
            process.close()
        if self.halt.fault is not None:
            raise self.halt.fault
        return self._finished()

    def _connect(self, process: MaidProcess) -> ClientSideConnection:
        assert process.stdin is not None
        files = TreeFiles(self._place)
        client = AgentClient(self._offer, self._turn, self._desk, files, self._terminals, self._tell, self._serves)
        wire = Wire(process.stdout, process.stdin, self._update, self._count_wire, self._overflow)
        return acp.connect_to_agent(client, wire, use_unstable_protocol=True)  # else it warns instead of refusing

    async def _converse(self, connection: ClientSideConnection) -> None:
        """Open a session and have one turn; every error of the agent's is written down, none is raised."""
        limits, launch = self._launch.maid.limits, self._launch
        try:
            opening = open_session(
                connection, self._offer, self._place.tree, launch.maid.mode, self._load, limits.session_ready / 2
            )
            session = await self._until(asyncio.ensure_future(opening), limits.session_ready)
            if session is None:
                return
            self._session_id, self._listening = session.session_id, True
            self._beat()
            self._tell(SessionOpened(session.session_id, session.can_load, session.loaded, session.detail))
            instead = launch.resume.prompt if launch.resume is not None and session.loaded else None
            text = launch.prompt if instead is None else instead
            asking = connection.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])
            self._prompt = asyncio.ensure_future(asking)
            answer = await self._until(self._prompt)
        except SessionRefused as error:
            self.halt.limit("launch_error", str(error))
        except RequestError as error:
            self._refused(error)
        except ConnectionError:
            self._stop_reason = "connection closed"
            if not self._listening:
                self.halt.limit("launch_error", "The agent ended, or closed its output, before a session was open.")
        except ValidationError as error:
            self._invalid(error)
        else:
            if answer is not None:
                self._answered(answer)

    def _refused(self, error: RequestError) -> None:
        self._stop_reason = reason_of(error)
        if is_provider_trouble(error):
            self.halt.limit("provider_error", self._stop_reason)
        elif not self._listening:
            self.halt.limit("launch_error", f"No session: {self._stop_reason}")

    def _invalid(self, error: ValidationError) -> None:
        """An answer that the protocol does not know; its stop reason is kept as it was said."""
        first = error.errors(include_url=False)[0]
        if self._listening and first["loc"] == ("stopReason",) and isinstance(first["input"], str):
            self._stop_reason = first["input"][:100]
            return
        self._stop_reason = f"invalid answer: {first['msg']} ({'.'.join(map(str, first['loc']))})"
        if not self._listening:
            self.halt.limit("launch_error", f"No session: {self._stop_reason}")

    def _answered(self, answer: acp.PromptResponse) -> None:
        self._stop_reason = answer.stop_reason
        if answer.usage is not None:
            self._tokens = Tokens(answer.usage.input_tokens, answer.usage.output_tokens)

    async def _until(self, task: asyncio.Task[T], seconds: float | None = None) -> T | None:
        """Wait for an answer of the agent, its limits, or a reason to end. None when the attempt has to end.

        Args:
            seconds: how long it may take, where silence is no sign of anything yet.
        """
        limits = self._launch.maid.limits
        wall = self._began + self._launch.maid.timeout
        begun = self._loop.time()
        asked = asyncio.ensure_future(self.halt.asked.wait())
        try:
            while not self.halt.asked.is_set():
                now = self._loop.time()
                if now >= wall:
                    self.halt.limit("timeout", f"It took longer than {self._launch.maid.timeout:g} s.")
                elif seconds is not None and now >= begun + seconds:
                    self.halt.limit("launch_error", f"No session was open after {seconds:g} s.")
                elif seconds is None and not self._desk.waiting and now >= self._heard + limits.silence:
                    self._silent(limits.silence)
                else:
                    quiet = limits.silence if self._desk.waiting else self._heard + limits.silence - now
                    patience = quiet if seconds is None else begun + seconds - now
                    await asyncio.wait(
                        {task, asked}, timeout=min(patience, wall - now), return_when=asyncio.FIRST_COMPLETED
                    )
                    if task.done():
                        return task.result()
        finally:
            asked.cancel()
            if not task.done() and task is not self._prompt:
                task.cancel()
        return None

    def _silent(self, seconds: float) -> None:
        if self._turn.working or self._terminals.running:
            self.halt.limit("hung_foreground", f"Nothing came for {seconds:g} s while a tool was running.")
        else:
            self.halt.limit("timeout", f"Nothing came for {seconds:g} s.")

    async def _end(self, connection: ClientSideConnection, process: MaidProcess) -> None:
        """Go down the stop ladder: cancel the turn, close stdin, SIGTERM, SIGKILL, sweep; in a hurry, the end of it."""
        if self._prompt is not None and not self._prompt.done() and not self.halt.hurry.is_set():
            with suppress(ConnectionError, TimeoutError):
                # First the cancel, then the open permissions: an agent must not go on as after a no.
                await asyncio.wait_for(connection.cancel(session_id=self._session_id), SEND_SECONDS)
            self._desk.close()
            await self._terminals.close()  # an agent that waits for a command can't answer
            await self._unless_hurried(self._prompt, CANCEL_SECONDS)
        self._desk.close()
        await self._terminals.close()
        stopping = asyncio.ensure_future(process.stop(self._graces))
        await self._unless_hurried(stopping)
        if not stopping.done():
            await process.stop(AT_ONCE)
        self._exit_code = await stopping
        await connection.close()
        await self._terminals.close()  # one may just have been made
        self._left_behind = process.left_behind + self._terminals.left_behind
        if tampered := process.tampered or self._terminals.tampered:
            self.halt.stop, self.halt.parked = Stop("policy_violation", tampered), False
        if self._prompt is not None:
            self._prompt.cancel()
            with suppress(asyncio.CancelledError, RequestError, ConnectionError, ValidationError):
                answer = await self._prompt
                self._stop_reason = self._stop_reason or answer.stop_reason

    async def _unless_hurried(self, task: asyncio.Task[Any], seconds: float | None = None) -> None:
        hurry = asyncio.ensure_future(self.halt.hurry.wait())
        await asyncio.wait({task, hurry}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()

    async def _interrupt(self) -> None:
        if not isinstance(self._watcher, Interrupting):
            return
        try:
            self.halt.because(await self._watcher.interrupted())
        except Exception as error:
            self.halt.failed(error)

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await stderr.read(65536):
            text = decoder.decode(data)
            self._stderr_tail = (self._stderr_tail + text)[-STDERR_KEPT:]
            self._count_text(len(data))
            if text:
                self._tell(Output("stderr", text))

    def _serves(self, session_id: str) -> bool:
        """Whether something of a session is served: not while an earlier one is loaded, nor later of one given up."""
        if self._load is None:
            return True
        return self._listening and (session_id == self._session_id or session_id != self._load)

    def _update(self, update: dict[str, Any], session_id: str) -> None:
        """Take an update; what comes before the session is open is an old session's history."""
        self._beat()
        if not self._listening or not self._serves(session_id):
            return
        event = self._turn.take(update)
        if event is None:
            return
        if isinstance(event, Output):
            self._count_text(len(event.text.encode("utf-8", "replace")))
        self._tell(event)

    def _tell(self, event: MaidEvent) -> None:
        """Tell the watcher, until the attempt has to end."""
        if self.halt.asked.is_set():
            return
        try:
            stop = self._watcher.event(event)
        except Exception as error:
            self.halt.failed(error)
            return
        if stop is not None:
            self.halt.because(stop)

    def _beat(self) -> None:
        self._heard = self._loop.time()

    def _count_text(self, size: int) -> None:
        self._beat()
        self._text_bytes += size
        if self._text_bytes > self._launch.maid.limits.output_bytes:
            self._flooded(f"It wrote more than {self._launch.maid.limits.output_bytes} bytes.")

    def _count_wire(self, size: int) -> None:
        self._beat()
        self._wire_bytes += size
        if self._wire_bytes > WIRE_SHARE * self._launch.maid.limits.output_bytes:
            self._flooded(f"It sent more than {WIRE_SHARE * self._launch.maid.limits.output_bytes} bytes.")

    def _overflow(self, what: str) -> None:
        self._flooded(f"It sent {what}.")

    def _flooded(self, detail: str) -> None:
        if not self.halt.asked.is_set():
            self.halt.because(Stop("policy_violation", detail))
            self.halt.kill()

    def _finished(self) -> Finished:
        return Finished(
            exit_code=self._exit_code,
            claim=self._turn.claim,
            stop_reason=self._stop_reason,
            stopped=self.halt.stop,
            awaits_permission=self.halt.parked,
            stderr_tail=self._stderr_tail,
            output_bytes=self._text_bytes,
            tokens=self._tokens,
            left_behind=self._left_behind,
            duration=self._loop.time() - self._began,
            plan_left=self._turn.plan_left,
        )
