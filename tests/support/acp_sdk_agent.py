"""An agent on the agent side of the official SDK: asks, writes, runs a command, and reports what it was answered."""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import schema


class SdkAgent:
    """One prompt, one of everything."""

    client: acp.Client

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: schema.ClientCapabilities | None = None, **kwargs: Any
    ) -> schema.InitializeResponse:
        return schema.InitializeResponse(protocol_version=acp.PROTOCOL_VERSION)

    async def new_session(self, cwd: str, **kwargs: Any) -> schema.NewSessionResponse:
        modes = [schema.SessionMode(id=name, name=name) for name in ("careful", "bold")]
        state = schema.SessionModeState(current_mode_id="careful", available_modes=modes)
        return schema.NewSessionResponse(session_id="one", modes=state)

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> schema.SetSessionModeResponse:
        self.mode = mode_id
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> schema.PromptResponse:
        client = self.client
        call = acp.start_tool_call("1", "shell", kind="execute", raw_input={"command": "cat made.txt"})
        await client.session_update(session_id, call)
        options = [
            schema.PermissionOption(option_id=f"id-{kind}", name=kind, kind=kind)
            for kind in ("allow_always", "allow_once", "reject_once")
        ]
        asked = schema.ToolCallUpdate(tool_call_id="1")
        answer = await client.request_permission(session_id=session_id, tool_call=asked, options=options)
        await client.write_text_file(session_id=session_id, path="made.txt", content="by butler\n")
        read = await client.read_text_file(session_id=session_id, path="made.txt")
        made = await client.create_terminal(session_id=session_id, command="cat made.txt")
        ended = await client.wait_for_terminal_exit(session_id=session_id, terminal_id=made.terminal_id)
        output = await client.terminal_output(session_id=session_id, terminal_id=made.terminal_id)
        await client.release_terminal(session_id=session_id, terminal_id=made.terminal_id)
        try:
            await client.write_text_file(session_id=session_id, path="../outside.txt", content="bad")
            refused = "written"
        except acp.RequestError as error:
            refused = str(error.code)
        await client.session_update(session_id, acp.update_tool_call("1", status="completed"))
        chosen = getattr(answer.outcome, "option_id", "cancelled")
        said = [self.mode, prompt[0].text, chosen, read.content, str(ended.exit_code), output.output, refused]
        await client.session_update(session_id, acp.update_agent_message_text("|".join(said)))
        return schema.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(SdkAgent()))  # type: ignore[arg-type]  # what it lacks is never asked for
