"""The house's own /commands, answered at once by code, also while a thread is parked (http-api, *Chat*)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from butler.approvals.actions import Action
from butler.approvals.show import approval, for_whom
from butler.commands import HOUSE_COMMANDS, HouseCommand, usage
from butler.errors import ButlerError
from butler.memory.compaction import Compactor
from butler.people import Principal
from butler.storage import conversations
from butler.storage.database import Database
from butler.tools.built_in import CLOSED_HERE
from butler.types import Verdict
from nodes.context import Faculties
from service import doctor_mcp
from service.approvals import list_approvals
from service.decisions import Decisions
from service.memory import MemoryService
from service.showings import Showings
from service.typed import Answer, TypedDecisions

MOST_LISTED = 20
_OF_THE_PERSON = ("search", "memory", "undo")
"""What they answer is the person's own, and an answer stays in the thread, for its owner to read."""
_WITHOUT_A_RULE: Mapping[Verdict | None, str] = {
    "allow": "without a rule: runs at once",
    "approve": "without a rule: asks first",
    "refuse": "without a rule: is refused",
    None: "without a rule: the default of the policy",
}


class Commands:
    """Carries out house commands. Raises ButlerError for those that can't be."""

    def __init__(self, faculties: Faculties, database: Database, decisions: Decisions, showings: Showings) -> None:
        self._faculties = faculties
        self._database = database
        self._memory = MemoryService(database, faculties.redactor)
        self._showings = showings
        self._typed = TypedDecisions(faculties, database, decisions)

    async def run(self, command: HouseCommand, text: str, thread_id: str, person: Principal) -> Answer:
        """Carry out `command`, typed as `text` in a thread where this person may speak."""
        own = await self._is_own(thread_id, person)
        if command.name in _OF_THE_PERSON and not own:
            raise ButlerError("forbidden", CLOSED_HERE)
        match command.name:
            case "help":
                return Answer(self._help())
            case "tools":
                return Answer(self._tools())
            case "approvals":
                return Answer(await self._approvals(person, None if own else thread_id))
            case "approve" | "deny" | "edit" | "respond":
                return await self._typed.run(command, text, thread_id, person)
            case "search":
                return Answer(await self._memory.told_search(person, command.rest, thread_id))
            case "memory":
                return Answer(await self._memory.told_memories(person, command.rest))
            case "undo":
                return Answer(await self._memory.told_undo(person, command.rest))
            case _:
                raise ButlerError("not_found", f"There is no command /{command.name}. /help lists them.")

    def _help(self) -> str:
        told = (line.partition(" — ") for line in HOUSE_COMMANDS.values())
        lines = ["You can type:", *(f"- `{typed}` — {meaning}" for typed, _, meaning in told)]
        lines.append("- `/remember TEXT`, `/recall WORDS`, `/forget ID` — keep, find or put aside a memory of you")
        lines.append("- `/TOOL key=value …` or `/TOOL {json}` — propose exactly that call; policy decides what happens")
        if self._faculties.model is None:
            missing = " and ".join(self._faculties.model_missing)
            lines.append(f"\nNo model is configured, so plain messages get no answer yet. Set {missing} and restart.")
        return "\n".join(lines)

    def _tools(self) -> str:
        lines = [
            f"- `{usage(tool.name, tool.input_schema)}` — {_line(tool.description)} ({_WITHOUT_A_RULE[tool.verdict]})"
            for tool in self._faculties.tools.specs()
            if tool.offered
        ]
        lines += doctor_mcp.lines(self._faculties.mcp)
        return "\n".join(lines) or "There are no tools yet. Declare some in tools.yml."

    async def _is_own(self, thread_id: str, person: Principal) -> bool:
        thread = await self._database.read(partial(conversations.owned_thread, thread_id=thread_id, person=person))
        return str(thread.owner_id) == person.user_id

    async def _approvals(self, person: Principal, thread_id: str | None) -> str:
        """The inbox; in a thread of somebody else, who will read the answer, only what waits in that thread."""
        items, more = await self._database.read(
            lambda connection: list_approvals(
                connection, person, status="pending", thread_id=thread_id, limit=MOST_LISTED, cursor=None
            )
        )
        if not items:
            return "Nothing waits for a decision."
        self._showings.saw(person, [item.action_id for item in items], "chat")
        lines = [self._line(item, person) for item in items]
        if more:
            lines.append("There are more; decide these first.")
        if any(item.may_be_decided_by(person) for item in items):
            lines.append("\nAnswer with `/approve CODE` or `/deny CODE reason`; /help tells more.")
        return "\n".join(lines)

    def _line(self, action: Action, person: Principal) -> str:
        shown = for_whom(approval(action, self._faculties.tools, self._faculties.redactor), action, person)
        args = "\n".join(f"    {name}: {value!r}" for name, value in shown["args"].items())
        others = f"; waits for {', '.join(shown['waits_for'])}, not for you" if shown["waits_for"] else ""
        about = f"{shown['rule']}, {shown['risk']}{others}"
        return f"- **{shown['code']}** `{shown['tool']}` — {shown['reason']} ({about})\n{args}"


def _line(text: str) -> str:
    """A description that does not end its line of the list."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 400 else f"{flat[:399]}…"


def compaction_of(faculties: Faculties) -> Compactor:
    """The compactor. Raises ButlerError when compaction is off or has no model."""
    if faculties.compactor is None:
        raise ButlerError("model_unavailable", "Compaction is switched off or has no model, so nothing is folded.")
    return faculties.compactor
