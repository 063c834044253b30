"""`butler chat` at a terminal: one thread at a time, its turns told as they happen, its approvals decided there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from butler.errors import ButlerError
from butler.types import Json
from service.cli.approvals import is_code
from service.cli.asking import unechoed
from service.cli.cards import decision_lines, span
from service.cli.grants import plain_id
from service.cli.plain import visible
from service.cli.remote import Remote
from service.cli.sse import Event
from service.cli.talk.decisions import Desk
from service.cli.talk.line import Ask
from service.cli.talk.prompt import Gone, News, Prompt
from service.cli.talk.screen import Screen
from service.cli.talk.threads import Thread, newest, recent
from service.cli.talk.turn import Left, Turns

INTERRUPTED = 130
SHOWN_THREADS = 15
MOST_GIVEN_BACK = 1_000
NOT_TAKEN_IN = frozenset({"unreachable", "rate_limited", "too_large", "invalid_request", "not_found"})
"""Errors after which a message is there again to be sent."""


class Talk:
    """A person, a server, and the thread that is open."""

    def __init__(self, server: Remote, screen: Screen, prompt: Prompt, thread_id: str | None = None) -> None:
        self._server, self._screen, self._prompt = server, screen, prompt
        self._desk = Desk(server, screen)
        self._turns = Turns(server, self)
        self._thread = Thread(server, thread_id)
        self._queued: list[str] = []
        self._listed: list[str] = []

    def text(self, piece: str) -> None:
        """Write words of a reply."""
        self._screen.page.text(piece)

    def note(self, line: str, *, whole: bool = True) -> None:
        """Write a line beside it."""
        self._screen.note(line, whole=whole)

    def heard(self, event: Event) -> None:
        """Learn which thread is talked in."""
        if event.name == "run":
            self._thread.is_now(str(event.data["thread_id"]))

    def run(self) -> int:
        """Talk until the person leaves; gives the exit status."""
        try:
            return self._run()
        except Left:
            self._screen.page.settle()
            self.note("left; what runs goes on by itself")
            return INTERRUPTED

    def _run(self) -> int:
        if self._thread.thread_id:
            self._guarded(self._open)
        interrupted = False
        while True:
            try:
                typed = self._prompt.read(self._thread)
            except News:
                self._guarded(self._tell_news)
                continue
            except (EOFError, Gone):
                return 0
            except KeyboardInterrupt:
                if interrupted:
                    return INTERRUPTED
                interrupted = True
                self.note("Ctrl-C again or Ctrl-D leaves")
                continue
            interrupted = False
            if typed.strip() in ("/quit", "/exit"):
                return 0
            if typed.strip():
                self._guarded(partial(self._typed, typed))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do something; what goes wrong with it is said, and the talk goes on."""
        try:
            work()
        except ButlerError as error:
            self._screen.say(f"butler: {error.detail}")
        except KeyboardInterrupt:
            self._screen.say()
        finally:
            self._screen.page.settle()

    def _typed(self, text: str) -> None:
        word, _, rest = text.strip().partition(" ")
        if word == "/threads":
            self._list()
        elif word == "/open":
            self._open_named(rest.strip())
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        body: Json = {"message": text}
        if self._thread.thread_id:
            body["thread_id"] = self._thread.thread_id
        try:
            self._settle(self._say_where_it_is(Ask("POST", "/chat", body)))
        except ButlerError as error:
            if error.code in NOT_TAKEN_IN:
                self._give_back(text)
            if error.code == "not_found" and self._thread.thread_id:
                self.note("this thread is gone; the next message begins a new one")
                self._open_none()
                return
            raise

    def _give_back(self, text: str) -> None:
        if len(text) <= MOST_GIVEN_BACK:
            self._prompt.give_back(text)
        else:
            # Shown again it would push what went wrong off the screen.
            self.note("your message was not taken in; the Up key has it again")

    def _open_none(self) -> None:
        self._thread = Thread(self._server)
        self._queued.clear()
        self._desk.forget()

    def _say_where_it_is(self, ask: Ask) -> Json:
        """Hear a turn, from another address if the server was started again since the last one."""
        before = self._server.place.url
        try:
            return self._hear(ask)
        except ButlerError as error:
            if error.code != "unreachable":
                raise
            self._server.look_again()
            if self._server.place.url == before:
                raise
        return self._hear(ask)

    def _hear(self, ask: Ask) -> Json:
        with unechoed():
            outcome = self._turns.hear(ask)
        self._screen.page.settle()
        return outcome

    def _join(self, run_id: str) -> Json:
        with unechoed():
            outcome = self._turns.join(run_id)
        self._screen.page.settle()
        return outcome

    def _settle(self, outcome: Json | None) -> None:
        """Go on from an Outcome until nothing is left to be heard or asked."""
        while outcome is not None:
            status, run_id = outcome["status"], outcome["run_id"]
            if status == "queued" and run_id not in self._queued:
                self._queued.append(run_id)
            if status in ("parked", "queued") and outcome["approvals"]:
                outcome = self._decide(outcome)
            elif status == "running":
                outcome = self._join(run_id)
            elif status == "queued":
                self.note("it waits until what was said before is answered")
                outcome = self._join(run_id)
            else:
                if run_id in self._queued:
                    self._queued.remove(run_id)
                if status == "failed":
                    self._screen.note(f"failed: {(outcome['error'] or {}).get('code', 'unknown')}")
                elif status == "cancelled":
                    self._screen.note("stopped")
                outcome = self._next()
        self._thread.seen_up_to_now()

    def _next(self) -> Json | None:
        """Go on with a message that was queued, once its turn has come."""
        while self._queued:
            now = self._server.get(f"/runs/{self._queued[0]}")
            if now["status"] == "queued" and now["approvals"]:
                return None
            return self._join(self._queued[0])
        return None

    def _decide(self, outcome: Json) -> Json | None:
        thread_id = outcome["thread_id"]
        waiting = self._desk.waiting(thread_id)
        if not waiting:
            # Somebody was faster; it goes on by itself.
            return self._join(outcome["run_id"])
        decision = self._desk.decide(waiting)
        if decision is None:
            self._tell_waiting(waiting)
            return None
        path = f"/threads/{thread_id}/resume"
        try:
            return self._hear(Ask("POST", path, {"decisions": [decision]}))
        except ButlerError as error:
            self._screen.say(f"butler: {error.detail}")
            if isinstance(stands := error.extras.get("problem", {}).get("decision"), dict):
                args = next(one["args"] for one in waiting if one["action_id"] == decision["action_id"])
                for line in decision_lines(stands, args):
                    self._screen.say(f"    {line}")
            now = self._server.get(f"/runs/{outcome['run_id']}")
            if now["status"] != "running":
                self._show_missed()
            return now

    def _tell_waiting(self, waiting: list[Json]) -> None:
        own = [one["code"] for one in waiting if not one.get("waits_for")]
        if own:
            self.note(f"waits for you: {', '.join(own)}; /approve CODE or /deny CODE reason goes on")
        elif waiting:
            self.note("waits for others")
        if self._queued:
            self.note("your message is kept and answered after that")

    def _tell_news(self) -> None:
        """Something happened in the open thread from elsewhere. It is told; nothing is asked while a person types."""
        self._show_missed()
        state = self._thread.state() or {}
        if state.get("status") == "running" and (run_id := self._thread.at_work()):
            self._join(run_id)
            state = self._thread.state() or {}
        if state.get("status") == "parked":
            waiting = self._desk.waiting(str(self._thread.thread_id))
            self._desk.show_new(waiting)
            self._tell_waiting(waiting)
        self._thread.seen_up_to_now()

    def _list(self) -> None:
        items = recent(self._server, SHOWN_THREADS)
        self._listed = [item["thread_id"] for item in items]
        moment = datetime.now(UTC)
        for number, item in enumerate(items, 1):
            changed = datetime.fromisoformat(item["updated_at"].replace("Z", "+00:00"))
            age = span(max((moment - changed).total_seconds(), 0))
            state = f"{item['pending']} waiting" if item["pending"] else item["status"]
            here = "*" if item["thread_id"] == self._thread.thread_id else " "
            title = visible(item["title"] or "(no title)")
            self._screen.say(f"{here}{number:>2}  {age:>6}  {visible(state):<10} {title}")
        self._screen.note("/open NUMBER opens one" if items else "there are no threads yet")

    def _open_named(self, name: str) -> None:
        if name == "last":
            name = newest(self._server)
        elif name.isdecimal() and len(name) < 4:
            if not 0 < int(name) <= len(self._listed):
                raise ButlerError("invalid_request", "That number is not in the list; /threads shows it.")
            name = self._listed[int(name) - 1]
        elif not name or (is_code(name) and len(name) < 4):
            raise ButlerError("invalid_request", "Say which: /open NUMBER (see /threads), /open ID or /open last.")
        other = Thread(self._server, plain_id(name))
        other.state(required=True)
        self._thread = other
        self._queued.clear()
        self._desk.forget()
        self._open()

    def _open(self) -> None:
        """Show the end of the thread, what runs in it, and what waits in it."""
        state = self._thread.state(required=True) or {}
        self.note(f"thread {self._thread.thread_id}: {state['title'] or '(no title)'}")
        self._show_missed(first=True)
        if state["status"] == "running" and (run_id := self._thread.at_work()):
            self._settle(self._join(run_id))
        elif state["status"] == "parked" and (waiting := self._desk.waiting(str(self._thread.thread_id))):
            self._settle(self._server.get(f"/runs/{waiting[0]['run_id']}"))
        else:
            self._thread.seen_up_to_now()

    def _show_missed(self, *, first: bool = False) -> None:
        for item in self._thread.missed(first=first):
            self._show(item)

    def _show(self, item: Json) -> None:
        if item["role"] == "assistant":
            self.text(item["text"])
            self._screen.page.settle()
        elif item["role"] == "user":
            self._screen.note(f"> {item['text']}", whole=False)
        else:
            self._screen.note(f"{item.get('tool') or 'tool'}: {item['text']}", whole=False)
