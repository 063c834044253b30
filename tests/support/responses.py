"""The other wire format of OpenAI, ``/v1/responses``, as far as Codex speaks it: read as chat, answered as events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support import wire
from tests.support.replies import Json, Reply


def as_messages(body: Mapping[str, Any]) -> list[Json]:
    """The history of a request as the messages of a chat; calls in a row are those of one assistant message."""
    messages: list[Json] = [{"role": "system", "content": body.get("instructions") or ""}]
    for item in body.get("input", []):
        match item:
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
                call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                if messages[-1].get("tool_calls"):
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case {"type": "function_call_output", "call_id": call_id, "output": output}:
                text = output if isinstance(output, str) else json.dumps(output)
                messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
            case {"role": role, "content": content}:
                text = "".join(str(part.get("text", "")) for part in content) if isinstance(content, list) else content
                messages.append({"role": role, "content": text})
    return messages


def events(reply: Reply, messages: list[Json]) -> bytes:
    """A whole answer as server-sent events."""
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in _events(reply, messages)
    )


def _events(reply: Reply, messages: list[Json]) -> Iterator[Json]:
    answer: Json = {"id": f"resp_{uuid.uuid4().hex[:12]}", "object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": answer}
    tokens = wire.tokens_of(reply)
    items: list[Json] = []
    if tokens:
        part = {"type": "output_text", "text": "".join(tokens), "annotations": []}
        items.append({"type": "message", "role": "assistant", "status": "completed", "content": [part]})
    for call, call_id in wire.with_ids(reply.calls):
        items.append({"type": "function_call", "call_id": call_id, "name": call.name, "arguments": call.arguments})
    for index, item in enumerate(items):
        item["id"] = f"item_{uuid.uuid4().hex[:12]}"
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
        if item["type"] == "message":
            delta = {"item_id": item["id"], "output_index": index, "content_index": 0, "delta": "".join(tokens)}
            yield {"type": "response.output_text.delta", **delta}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    used = wire.usage_of(reply, messages, len(tokens))
    usage = {
        "input_tokens": used["prompt_tokens"], "input_tokens_details": None, "output_tokens": used["completion_tokens"],
        "output_tokens_details": None, "total_tokens": used["total_tokens"],
    }  # fmt: skip
    yield {"type": "response.completed", "response": {**answer, "status": "completed", "output": items, "usage": usage}}
