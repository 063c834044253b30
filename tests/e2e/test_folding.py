"""Folding in a running server: noted by the model, checked by code, read in the next request, survives a restart."""

from __future__ import annotations

import json
from typing import Any

from tests.support.client import Client, Json
from tests.support.scripted_model import ScriptedModel
from tests.support.server import MakeButler

TOLD = ["My sister Clara is allergic to peanuts.", "Our budget is 3200 euros.", "We leave at 6:40.", "And now?"]
FOLDING: dict[str, Any] = {
    "BUTLER_CONTEXT_COMPACTION_TRIGGER_MESSAGES": "1000",
    "BUTLER_CONTEXT_COMPACTION_RECENT_WINDOW": "2",
}


def noted(*notes: tuple[int, str, str], **more: Any) -> str:
    return json.dumps({"notes": [{"source": at, "kind": kind, "text": text} | more for at, kind, text in notes]})


def tell(client: Client, *texts: str, thread: str | None = None) -> str:
    for text in texts:
        thread = client.chat(text, thread)["thread_id"]
    assert thread is not None
    return thread


def last_request(model: ScriptedModel, text: str) -> list[Json]:
    messages: list[Json] = model.requests(text)[-1]["body"]["messages"]
    return messages


def test_notes_reach_the_next_request_and_are_rolled_on_after_a_restart(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler(**FOLDING).start()
    client = server.client()
    thread = tell(client, *TOLD[:3])
    model.reply(
        purpose="compaction",
        text=noted((1, "fact", "Sister Clara is allergic to peanuts."), (1, "fact", "Clara lives in Hamburg.")),
    )
    client.chat("/compact", thread)
    with client.stream("POST", "/chat", {"message": TOLD[3], "thread_id": thread}) as stream:
        stream.rest()
    assert any("folded" in event.data["text"] for event in stream.events if event.event == "notice")
    system, *recent = last_request(model, TOLD[3])
    assert system["content"].endswith(
        "Facts:\n- Sister Clara is allergic to peanuts.\n\n"
        "Said by the user, word for word:\n- Our budget is 3200 euros."
    )
    assert "Hamburg" not in system["content"]
    assert recent[0] == {"role": "user", "content": TOLD[2]} and recent[-1] == {"role": "user", "content": TOLD[3]}

    server.kill()
    server.start()
    model.reply(purpose="compaction", text=noted((1, "fact", "The user leaves at 6:40.")))
    client.chat("/compact", thread)
    tell(client, "Still there?", thread=thread)
    told = last_request(model, "Still there?")[0]["content"]
    assert told.endswith(
        "Facts:\n- Sister Clara is allergic to peanuts.\n- The user leaves at 6:40.\n\n"
        "Said by the user, word for word:\n- Our budget is 3200 euros."
    )
    spoken = [text for role, text in client.transcript(thread) if role == "user"]
    assert [text for text in spoken if not text.startswith("/")] == [*TOLD, "Still there?"]
    assert model.problems() == []


def test_a_bad_summary_changes_nothing(make_butler: MakeButler, model: ScriptedModel) -> None:
    client = make_butler(**FOLDING).start().client()
    thread = tell(client, *TOLD[:3])
    model.reply(purpose="compaction", text="I'm sorry, I can't summarise this talk.")
    client.chat("/compact", thread)
    tell(client, TOLD[3], thread=thread)
    request = last_request(model, TOLD[3])
    assert [message["content"] for message in request if message["role"] == "user"] == TOLD
    assert "Summary" not in request[0]["content"]


def test_compact_says_what_is_true_and_tries_again_after_a_failure(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    client = make_butler(**FOLDING).start().client()
    thread = tell(client, TOLD[0])
    assert "Nothing to fold yet" in client.chat("/compact", thread)["reply"]
    tell(client, *TOLD[1:3], thread=thread)
    model.reply(purpose="compaction", text="I'm sorry, I can't summarise this talk.")
    assert "did not work out: the model gave an apology" in client.chat("/compact", thread)["reply"]
    model.reply(purpose="compaction", text=noted((1, "fact", "Sister Clara is allergic to peanuts.")))
    assert "from your next message on" in client.chat("/compact", thread)["reply"]
    asked = len(model.requests())
    assert "from your next message on" in client.chat("/compact", thread)["reply"]
    assert len(model.requests()) == asked
