"""A plain agent server as the documentation of LangChain and FastAPI would have one write it.

`create_agent` with human-in-the-loop and summarization middleware, `ChatOpenAI`, `AsyncSqliteSaver`,
FastAPI and uvicorn, each with its defaults. Its tools run the same command as Butler's declared tools,
so that both pay for the same child process. Settings come from the environment: ``BASELINE_PORT``,
``BASELINE_DATA_DIR``, ``BASELINE_WORK_DIR``, ``BASELINE_MODEL_URL``, ``BASELINE_STREAMING``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from pydantic import BaseModel, SecretStr
from sse_starlette.sse import EventSourceResponse
from starlette.responses import Response

from bench.tools import NOTE_SCRIPT, TOOL_SCRIPT

DATA_DIR = Path(os.environ.get("BASELINE_DATA_DIR", "."))
WORK_DIR = Path(os.environ.get("BASELINE_WORK_DIR", "."))


class ChatRequest(BaseModel):
    message: str
    thread_id: str | None = None


class ResumeRequest(BaseModel):
    decisions: list[dict[str, Any]]


async def _run(script: str, text: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "sh", script, text, cwd=WORK_DIR, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return output.decode() or "ok"


@tool
async def append_line(text: str) -> str:
    """Append one line to the journal."""
    return await _run(TOOL_SCRIPT, text)


@tool
async def note_line(text: str) -> str:
    """Note one line in the journal."""
    return await _run(NOTE_SCRIPT, text)


def _config(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    model = ChatOpenAI(
        model="scripted",
        base_url=os.environ["BASELINE_MODEL_URL"],
        api_key=SecretStr("bench"),
        streaming=os.environ.get("BASELINE_STREAMING", "1") == "1",
    )
    async with AsyncSqliteSaver.from_conn_string(str(DATA_DIR / "checkpoints.db")) as saver:
        app.state.agent = create_agent(
            model,
            tools=[append_line, note_line],
            system_prompt="You are a helpful butler.",
            middleware=[
                HumanInTheLoopMiddleware(interrupt_on={"append_line": True}),
                SummarizationMiddleware(model, trigger=[("tokens", 12000), ("messages", 60)], keep=("messages", 8)),
            ],
            checkpointer=saver,
        )
        yield


app = FastAPI(lifespan=lifespan)


def _outcome(thread_id: str, values: dict[str, Any], interrupts: list[Any]) -> dict[str, Any]:
    messages = values.get("messages") or []
    return {
        "thread_id": thread_id,
        "status": "parked" if interrupts else "done",
        "reply": "" if interrupts or not messages else str(messages[-1].text),
        "interrupts": [{"id": item.id, "value": item.value} for item in interrupts],
    }


async def _invoke(given: Any, thread_id: str) -> dict[str, Any]:
    result = await app.state.agent.ainvoke(given, _config(thread_id))
    return _outcome(thread_id, result, list(result.get("__interrupt__") or []))


async def _stream(given: Any, thread_id: str) -> AsyncIterator[dict[str, str]]:
    agent = app.state.agent
    interrupts: list[Any] = []
    values: dict[str, Any] = {}
    async for mode, data in agent.astream(given, _config(thread_id), stream_mode=["messages", "values"]):
        if mode == "messages":
            chunk, _ = data
            if chunk.type == "AIMessageChunk" and chunk.text:
                yield {"event": "token", "data": orjson.dumps({"text": str(chunk.text)}).decode()}
        else:
            values = data
            interrupts = list(data.get("__interrupt__") or [])
    # Only now, after the stream has ended, is the interrupt's checkpoint written.
    yield {"event": "end", "data": orjson.dumps(_outcome(thread_id, values, interrupts)).decode()}


async def _answer(request: Request, given: Any, thread_id: str) -> Any:
    if "text/event-stream" in request.headers.get("accept", ""):
        return EventSourceResponse(_stream(given, thread_id))
    return await _invoke(given, thread_id)


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/chat", response_model=None)
async def chat(body: ChatRequest, request: Request) -> dict[str, Any] | Response:
    given = {"messages": [{"role": "user", "content": body.message}]}
    answer: dict[str, Any] | Response = await _answer(request, given, body.thread_id or str(uuid4()))
    return answer


@app.post("/threads/{thread_id}/resume", response_model=None)
async def resume(thread_id: str, body: ResumeRequest, request: Request) -> dict[str, Any] | Response:
    given: Command[Any] = Command(resume={"decisions": body.decisions})
    answer: dict[str, Any] | Response = await _answer(request, given, thread_id)
    return answer


@app.post("/threads/{thread_id}/continue")
async def go_on(thread_id: str) -> dict[str, Any]:
    """Run on from the newest checkpoint, as a client would after a crash."""
    return await _invoke(None, thread_id)


@app.get("/threads/{thread_id}")
async def thread(thread_id: str) -> dict[str, Any]:
    state = await app.state.agent.aget_state(_config(thread_id))
    if not state.values:
        raise HTTPException(404)
    return {
        **_outcome(thread_id, state.values, list(state.interrupts)),
        "tasks": len(state.tasks),
        "messages": [{"role": item.type, "text": str(item.text)} for item in state.values["messages"]],
    }


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["BASELINE_PORT"]), log_level="warning")
