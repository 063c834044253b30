"""The MCP tools, carried out for the person whose token opened the connection; none waits for a person."""

from __future__ import annotations

from functools import partial

from butler.approvals.decide import Decision, check_shape
from butler.approvals.show import approval
from butler.errors import ButlerError
from butler.people import Principal
from butler.types import Json
from service.approvals import list_approvals
from service.butler import ButlerService
from service.completing import complete
from service.decisions import Decided
from service.maids import MaidService
from service.mcp import bodies
from service.mcp.answers import Answer, begun, decided, listed, stood, task
from service.mcp.bodies import read_arguments
from service.mcp.patience import CHAT_SECONDS, Progress, patiently

VIA = "mcp"
MOST_LISTED = 100


class Tools:
    """Every tool by its name, over one service."""

    def __init__(self, service: ButlerService) -> None:
        self._service = service
        self._maids = MaidService(service)

    async def call(self, person: Principal, name: str, arguments: Json, progress: Progress) -> Answer:
        """Carry out one call.

        Raises:
            LookupError: there is no such tool.
            ButlerError: with the same code as over HTTP.
        """
        match name:
            case "chat":
                return await self._chat(person, read_arguments(bodies.ChatArguments, arguments), progress)
            case "delegate":
                return await self._delegate(person, read_arguments(bodies.DelegateArguments, arguments))
            case "maid_run_status":
                return await self._task(person, read_arguments(bodies.MaidRunArguments, arguments))
            case "approvals_list":
                return await self._list(person, read_arguments(bodies.ListArguments, arguments))
            case "approvals_decide":
                return await self._decide(person, read_arguments(bodies.DecideArguments, arguments))
            case "session_complete":
                return await self._complete(person, read_arguments(bodies.CompleteArguments, arguments))
        raise LookupError(name)

    async def run(self, person: Principal, run_id: str) -> Json:
        """The Outcome of a run, for the resource of it."""
        outcome = await self._service.run_outcome(person, run_id)
        return self._service.showings.outcome(person, outcome, VIA)

    async def _chat(self, person: Principal, body: bodies.ChatArguments, progress: Progress) -> Answer:
        ticket = await self._service.chat(person, body.message, body.thread_id, "queue")
        outcome = await patiently(ticket.outcome(), progress, CHAT_SECONDS)
        if outcome is None:
            outcome = await self._service.run_outcome(person, ticket.run_id)
        self._service.showings.outcome(person, outcome, VIA)
        waiting = [
            await self._service.approval(person, one["action_id"], waits_for=True) for one in outcome["approvals"]
        ]
        return stood(outcome, waiting)

    async def _delegate(self, person: Principal, body: bodies.DelegateArguments) -> Answer:
        made = await self._maids.begin(person, body.model_dump(exclude_none=True))
        ids = {"maid_run_id": made.task.maid_run_id, "thread_id": made.run.thread_id, "run_id": made.run.run_id}
        return begun({**ids, "status": "running"})

    async def _task(self, person: Principal, body: bodies.MaidRunArguments) -> Answer:
        found = await self._maids.one(person, body.maid_run_id)
        self._service.showings.saw(person, [shown["action_id"] for shown in found["approvals"]], VIA)
        return task(self._masked(found))

    async def _list(self, person: Principal, body: bodies.ListArguments) -> Answer:
        items, cursor = await self._service.database.read(
            partial(
                list_approvals, person=person, status="pending", thread_id=body.thread_id, limit=MOST_LISTED,
                cursor=None,
            )
        )  # fmt: skip
        self._service.showings.saw(person, [action.action_id for action in items], VIA)
        faculties = self._service.faculties
        shown = [approval(action, faculties.tools, faculties.redactor) for action in items]
        return listed({"items": shown, "more": cursor is not None})

    async def _decide(self, person: Principal, body: bodies.DecideArguments) -> Answer:
        responds = body.decision == "respond"
        decision = Decision(
            body.decision, body.args, None if responds else body.reason, body.reason if responds else None,
            body.fingerprint,
        )  # fmt: skip
        if responds and not body.reason:
            raise ButlerError("invalid_request", "A respond needs a `reason`, which is given as the result.")
        check_shape(decision)
        return self._decided(await self._service.decisions.one(body.action_id, decision, person, VIA))

    async def _complete(self, person: Principal, body: bodies.CompleteArguments) -> Answer:
        decision = Decision(body.decision, reason=body.reason)
        return self._decided(await complete(self._service, person, body.maid_run_id, decision, VIA))

    def _decided(self, made: Decided) -> Answer:
        faculties = self._service.faculties
        [action] = made.actions
        return decided(
            {"approval": approval(action, faculties.tools, faculties.redactor), "run_id": action.run_id}, made.in_part
        )

    def _masked(self, value: Json) -> Json:
        shown: Json = self._service.faculties.redactor.json(value)
        return shown
