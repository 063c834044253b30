"""The tools for downstream agents: look-ups run at once, commands and changes wait for a person (B5)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from butler.agents import directory
from butler.agents.directory import MOST_CAPABILITIES, MOST_CAPABILITY, MOST_DESCRIPTION, Agent
from butler.agents.quoting import NOTE, about, as_json, quoted_answer
from butler.agents.switchboard import Directive, Switchboard, offline
from butler.approvals import ledger
from butler.canonical import canonical_json
from butler.errors import ButlerError
from butler.people import Actor
from butler.storage import audit
from butler.storage.database import Database
from butler.storage.users import check_name
from butler.tools.built_in import SOURCE, benign_toolset, built_in
from butler.tools.registry import Toolset
from butler.types import Invocation, Json, Obstacle, Occasion, ToolResult, ToolRunner, ToolSpec

_ID: Json = {"type": "string", "minLength": 1, "maxLength": 64, "description": "The agent's id, or its name"}
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 64, "description": "Letters, digits, . _ -"}
_DESCRIPTION: Json = {"type": "string", "maxLength": MOST_DESCRIPTION, "description": "What it is for"}
_CAPABILITIES: Json = {
    "type": "array", "maxItems": MOST_CAPABILITIES, "items": {"type": "string", "maxLength": MOST_CAPABILITY},
}  # fmt: skip
NO_TOKEN = (
    "It has no token yet, and tokens are never shown in a chat: an admin makes one with "
    "`butler user token create {name}` or with POST /users/{name}/tokens, and gives it to the agent."
)


class AgentTools:
    """The tools over a database and the connections of agents; `timeout` in seconds bounds the wait for an answer."""

    def __init__(self, database: Database, board: Switchboard, timeout: float) -> None:
        self._database = database
        self._board = board
        self._timeout = timeout

    def toolsets(self) -> list[Toolset]:
        """Look-ups, and what is governed."""
        look_ups = benign_toolset(
            built_in("list_agents", "List the downstream agents, and which of them are online.", {}, [], self._list),
            built_in(
                "agent_status", "Tell whether an agent is online, when it was last seen and what it can do.",
                {"agent_id": _ID}, ["agent_id"], self._status, plain="agent_id",
            ),
        )  # fmt: skip
        governed = [
            _governed(
                "command_agent",
                "Send a command to an agent that is online, and wait for its answer. A person approves it first.",
                {
                    "target_agent_id": _ID,
                    "command": {"type": "string", "minLength": 1, "maxLength": 8000, "description": "For the agent"},
                    "reasoning": {"type": "string", "maxLength": 2000, "description": "Why, for who approves it"},
                },
                ["target_agent_id", "command", "reasoning"], self._command, self._unreachable,
            ),
            _governed(
                "create_agent", "Make a new downstream agent. Its token is for a person to make.",
                {"name": _NAME, "description": _DESCRIPTION}, ["name"], self._create, _unusable_name,
            ),
            _governed(
                "edit_agent", "Change the name, the description or the capabilities of an agent.",
                {"agent_id": _ID, "name": _NAME, "description": _DESCRIPTION, "capabilities": _CAPABILITIES},
                ["agent_id"], self._edit, self._unknown,
            ),
            _governed(
                "delete_agent", "Shut an agent out for good; this can't be undone by you.",
                {"agent_id": _ID}, ["agent_id"], self._delete, self._unknown,
            ),
        ]  # fmt: skip
        return [
            Toolset("agent look-ups", "benign", look_ups.specs, SOURCE),
            Toolset("agents", "governed", governed, SOURCE),
        ]

    def _unreachable(self, occasion: Occasion) -> str | None:
        agent = directory.the_agent(occasion.connection, occasion.args["target_agent_id"], occasion.asked_at)
        return None if self._board.is_online(agent.agent_id) else offline(agent.name)

    def _unknown(self, occasion: Occasion) -> str | None:
        directory.the_agent(occasion.connection, occasion.args["agent_id"], occasion.asked_at)
        return None

    async def _list(self, call: Invocation) -> ToolResult:
        found = await self._database.read(directory.listed)
        if not found:
            return ToolResult("There are no agents. An admin makes one, or you propose create_agent.")
        told = [about(agent, self._board.is_online(agent.agent_id)) for agent in found]
        return ToolResult(as_json({"note": NOTE, "agents": told}))

    async def _status(self, call: Invocation) -> ToolResult:
        agent = await self._database.read(partial(directory.the_agent, word=call.args["agent_id"]))
        return ToolResult(as_json({"note": NOTE, **about(agent, self._board.is_online(agent.agent_id), whole=True)}))

    async def _command(self, call: Invocation) -> ToolResult:
        args = call.args
        agent = await self._database.read(partial(_meant, call=call, word=args["target_agent_id"]))
        directive = Directive(
            agent.agent_id, agent.name, args["command"], args["reasoning"], call.action_id, call.thread_id, call.run_id
        )
        if not self._board.is_online(agent.agent_id):
            raise ButlerError("not_found", offline(agent.name))
        await self._database.write(partial(_note_sent, directive=directive))
        frame = {
            "type": "CHAT", "payload": directive.command, "command": directive.command,
            "reasoning": directive.reasoning, "correlation_id": directive.correlation_id,
            "action_id": directive.action_id, "timestamp": directive.sent_at,
        }  # fmt: skip
        try:
            text = await self._board.command(directive, frame, self._timeout)
        except TimeoutError:
            return ToolResult(
                f"{agent.name} gave no answer within {self._timeout:g} s. It was told once; whether it carried the "
                "command out is unknown. An answer that comes later is not taken in.",
                is_error=True,
            )
        return ToolResult(quoted_answer(agent.name, text))

    async def _create(self, call: Invocation) -> ToolResult:
        name, description = call.args["name"], call.args.get("description", "")
        made = await self._database.write(
            lambda connection: directory.create(connection, name, description, _actor(call))
        )
        return ToolResult(f"Made the agent {name} with the id {made.user_id}. {NO_TOKEN.format(name=name)}")

    async def _edit(self, call: Invocation) -> ToolResult:
        wanted = {key: value for key, value in call.args.items() if key != "agent_id"}

        def change(connection: Connection) -> tuple[Agent, list[str]]:
            agent = _meant(connection, call, call.args["agent_id"])
            return agent, directory.edit(connection, agent, _actor(call), **wanted)

        agent, changed = await self._database.write(change)
        return ToolResult(f"Changed {', '.join(changed)} of {agent.name}." if changed else "Nothing was to change.")

    async def _delete(self, call: Invocation) -> ToolResult:
        def end(connection: Connection) -> Agent:
            agent = _meant(connection, call, call.args["agent_id"])
            directory.delete(connection, agent, _actor(call))
            return agent

        agent = await self._database.write(end)
        self._board.cut_off(agent.agent_id, "this agent was deleted")
        return ToolResult(f"Deleted the agent {agent.name}: its tokens have ended, and it can't connect any more.")


def _unusable_name(occasion: Occasion) -> str | None:
    check_name(occasion.connection, occasion.args["name"])
    return None


def _actor(call: Invocation) -> Actor:
    return Actor(call.requested_by, "run")


def _meant(connection: Connection, call: Invocation, word: str) -> Agent:
    """The agent that was meant when the call was shown."""
    action = ledger.get(connection, call.action_id)
    return directory.the_agent(connection, word, action.requested_at if action else None)


def _note_sent(connection: Connection, directive: Directive) -> None:
    audit.record(
        connection, "directive_sent", actor="butler", via="socket", action_id=directive.action_id,
        thread_id=directive.thread_id, run_id=directive.run_id, agent=directive.agent_name,
        agent_id=directive.agent_id, correlation_id=directive.correlation_id,
    )  # fmt: skip


def _governed(
    name: str, description: str, properties: Json, required: list[str], run: ToolRunner, obstacle: Obstacle
) -> ToolSpec:
    schema: Json = {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False,
    }  # fmt: skip
    digest = hashlib.sha256(canonical_json({"name": name, "description": description, "schema": schema}).encode())
    return ToolSpec(
        name=name, description=description, input_schema=schema, run=_plainly(run), governed=True, source=SOURCE,
        digest=digest.hexdigest(), verdict="approve", obstacle=_told(obstacle),
    )  # fmt: skip


def _plainly(run: ToolRunner) -> ToolRunner:
    """A refusal is a result like any other."""

    async def guarded(call: Invocation) -> ToolResult:
        try:
            return await run(call)
        except ButlerError as error:
            return ToolResult(error.detail, is_error=True)

    return guarded


def _told(obstacle: Obstacle) -> Callable[[Occasion], str | None]:
    def told(occasion: Occasion) -> str | None:
        try:
            return obstacle(occasion)
        except ButlerError as error:
            return error.detail

    return told
