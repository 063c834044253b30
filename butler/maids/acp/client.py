"""Butler's side of the protocol: what an agent may ask of it, and what it is answered (D4, D10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acp import RequestError, schema

from butler.maids.acp.desk import Desk
from butler.maids.acp.files import Refused, TreeFiles
from butler.maids.acp.offer import Offer
from butler.maids.acp.permissions import Option, response_to
from butler.maids.acp.terminals import Terminal, Terminals, refused
from butler.maids.acp.updates import Turn
from butler.maids.contract import MaidEvent, ToolUse


class AgentClient:
    """Answers the requests of one agent. What was not offered, and what the protocol does not know, is -32601.

    Args:
        tell: takes an event that no update tells: a file request that was refused.
        serves: whether wishes of a session, by its id, are served by now.
    """

    def __init__(
        self,
        offer: Offer,
        turn: Turn,
        desk: Desk,
        files: TreeFiles,
        terminals: Terminals,
        tell: Callable[[MaidEvent], None],
        serves: Callable[[str], bool] = lambda session_id: True,
    ) -> None:
        self._offer = offer
        self._turn = turn
        self._desk = desk
        self._files = files
        self._terminals = terminals
        self._tell = tell
        self._serves = serves
        self._refusals = 0

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        """Rule by kind, command and paths; answer with a single-use option or ``cancelled``."""
        if not self._serves(session_id):
            return response_to("cancel", [])
        said = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        if (use := self._turn.tool(said)) is not None:
            self._tell(use)
        call = self._turn.call(tool_call.tool_call_id) or said
        offered = [Option(option.option_id, option.kind) for option in options]
        return response_to(await self._desk.ask(call, offered), offered)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> schema.WriteTextFileResponse:
        """Write a file of the tree."""
        self._only_if(self._offer.files, "fs/write_text_file")
        self._only_if_served(session_id)
        try:
            await asyncio.to_thread(self._files.write, path, content)
        except Refused as error:
            raise self._refuse("edit", path, error.path, str(error)) from error
        except OSError as error:
            raise refused(f"{path} can't be written: {error.strerror or error}") from error
        return schema.WriteTextFileResponse()

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> schema.ReadTextFileResponse:
        """Read a file of the tree."""
        self._only_if(self._offer.files, "fs/read_text_file")
        try:
            text = await asyncio.to_thread(self._files.read, path, line, limit)
        except Refused as error:
            raise self._refuse("read", path, error.path, str(error)) from error
        except FileNotFoundError as error:
            raise RequestError.resource_not_found(path) from error
        except OSError as error:
            raise refused(f"{path} can't be read: {error.strerror or error}") from error
        return schema.ReadTextFileResponse(content=text)

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> schema.CreateTerminalResponse:
        """Run a command once it is allowed."""
        self._only_if(self._offer.terminals, "terminal/create")
        self._only_if_served(session_id)
        variables = {variable.name: variable.value for variable in env or []}
        made = await self._terminals.create(command, args or [], variables, cwd, output_byte_limit)
        return schema.CreateTerminalResponse(terminal_id=made)

    async def terminal_output(self, session_id: str, terminal_id: str, **kwargs: Any) -> schema.TerminalOutputResponse:
        """The output so far."""
        terminal = self._terminal(terminal_id)
        return schema.TerminalOutputResponse(
            output=terminal.text(), truncated=terminal.truncated, exit_status=terminal.status()
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.WaitForTerminalExitResponse:
        """Answer when the command has ended."""
        terminal = self._terminal(terminal_id)
        await terminal.ended.wait()
        status = terminal.status() or schema.TerminalExitStatus()
        return schema.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> schema.KillTerminalResponse:
        """End the command."""
        self._terminal(terminal_id)
        await self._terminals.kill(terminal_id)
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.ReleaseTerminalResponse:
        """End the command and forget it."""
        self._terminal(terminal_id)
        await self._terminals.release(terminal_id)
        return schema.ReleaseTerminalResponse()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Nothing comes here: the wire takes updates itself."""

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> schema.CreateElicitationResponse:
        """Nobody is there to fill in a form."""
        raise RequestError.method_not_found("elicitation/create")

    async def complete_elicitation(self, elicitation_id: str, **kwargs: Any) -> None:
        """Nothing comes here."""

    def on_connect(self, conn: Any) -> None:
        """The attempt holds the connection."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Serve no extension."""
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Heed no extension."""

    def _terminal(self, terminal_id: str) -> Terminal:
        self._only_if(self._offer.terminals, "terminal")
        return self._terminals.get(terminal_id)

    def _only_if(self, offered: bool, method: str) -> None:
        if not offered:
            raise RequestError.method_not_found(method)

    def _only_if_served(self, session_id: str) -> None:
        if not self._serves(session_id):
            raise refused("This session is not open: what was done in it is not done again.")

    def _refuse(self, kind: str, said: str, path: Path, reason: str) -> RequestError:
        self._refusals += 1
        arguments = {"path": said, "refused": reason}
        self._tell(ToolUse(f"file-{self._refusals}", kind, said, "failed", (path,), arguments, reason))
        return refused(reason)
