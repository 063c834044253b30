"""What waits in a talk, decided right there: the card whole, one question, and nothing without a clear answer (A7)."""

from __future__ import annotations

from butler.errors import ButlerError
from butler.types import Json
from service.cli.asking import ask_line
from service.cli.cards import is_masked, print_approval
from service.cli.editor import edit_arguments
from service.cli.plain import visible
from service.cli.remote import Remote
from service.cli.talk.screen import Screen

WORDS = {
    "approve": ("a", "approve", "y", "yes"),
    "edit": ("e", "edit"),
    "reject": ("d", "deny", "reject"),
    "respond": ("r", "respond"),
}
NAMES = {"approve": "approve", "edit": "edit", "reject": "deny", "respond": "respond"}
LATER = ("", "l", "later", "n", "no")


class Desk:
    """Shows what waits in a thread and asks about it; what was put off or decided is not asked about again."""

    def __init__(self, server: Remote, screen: Screen) -> None:
        self._server = server
        self._screen = screen
        self._asked: set[str] = set()

    def forget(self) -> None:
        """Ask about everything anew, since another thread was opened."""
        self._asked.clear()

    def waiting(self, thread_id: str) -> list[Json]:
        """What waits in a thread, each with whom it waits for."""
        return list(self._server.pages("/approvals", status="pending", thread_id=thread_id, waits_for="true"))

    def show(self, approval: Json) -> None:
        """Print a card."""
        self._screen.page.settle()
        print_approval(self._screen.out, approval)

    def show_new(self, waiting: list[Json]) -> None:
        """Print the cards that were not shown yet, and ask nothing."""
        for approval in waiting:
            if approval["action_id"] not in self._asked:
                self._asked.add(approval["action_id"])
                self.show(approval)

    def decide(self, waiting: list[Json]) -> Json | None:
        """Ask about each that was not asked about; gives the first decision, None when there is none."""
        for approval in waiting:
            if approval["action_id"] in self._asked:
                continue
            self._asked.add(approval["action_id"])
            self.show(approval)
            if approval.get("waits_for"):
                continue
            try:
                decision = self._ask(approval)
            except KeyboardInterrupt:
                self._screen.say()
                decision = None
            if decision is not None:
                return {"action_id": approval["action_id"], "fingerprint": approval["fingerprint"], **decision}
            self._screen.note(f"{approval['code']} is left as it is; it still waits.")
        return None

    def _ask(self, approval: Json) -> Json | None:
        allowed = [kind for kind in NAMES if kind in approval["allowed_decisions"]]
        while True:
            said = ask_line(f"{', '.join(NAMES[kind] for kind in allowed)} or later? ")
            if said is None:
                self._screen.say()
                return None
            said = said.strip().lower()
            if said in LATER:
                return None
            kind = next((kind for kind in allowed if said in WORDS[kind]), None)
            if kind is None:
                self._screen.say(f"{visible(said)!r} is no answer to this.")
                continue
            try:
                return self._decision(kind, approval)
            except ButlerError as error:
                self._screen.say(f"butler: {error.detail}")

    def _decision(self, kind: str, approval: Json) -> Json | None:
        if kind == "edit":
            return {"decision": kind, "args": edit_arguments(approval, is_masked(approval))}
        if kind == "reject":
            reason = ask_line("Why? The butler reads it; it may be empty: ")
            if reason is None:
                return None
            return {"decision": kind} | ({"reason": reason.strip()} if reason.strip() else {})
        if kind == "respond":
            text = ask_line("What is the result in its place? ")
            return {"decision": kind, "response": text} if text and text.strip() else None
        return {"decision": kind}
