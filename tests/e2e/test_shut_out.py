"""What a user had under way when an admin shut it out: nothing of it happens without somebody else's yes (F2)."""

from __future__ import annotations

import pytest

from tests.support.client import Client, Json, good
from tests.support.orders import approve, call, fresh, park
from tests.support.server import ButlerServer


@pytest.mark.parametrize("change", [{"disabled": True}, {"role": "agent"}], ids=["disabled", "made agent"])
def test_what_somebody_had_queued_does_not_start_once_they_are_shut_out(
    butler: ButlerServer, owner: Client, change: Json
) -> None:
    name = fresh("gone")
    person = butler.user_add(name, "member")
    parked = park(person, asked := fresh("asked"))
    thread_id = parked["thread_id"]
    texts = [fresh("queued"), fresh("queued")]
    queued = [person.chat(call("note_line", text), thread_id) for text in texts]
    assert [one["status"] for one in queued] == ["queued", "queued"]
    last = owner.chat(call("note_line", others := fresh("others")), thread_id)
    good(owner.request("PATCH", f"/users/{name}", json=change))
    owner.decided(thread_id, approve(parked["approvals"][0]))
    owner.when_run(last["run_id"], "done")
    for one, text in zip(queued, texts, strict=True):
        outcome = owner.when_run(one["run_id"], "cancelled")
        assert "may not sign in" in outcome["reply"]
        assert butler.workshop.effects(text) == []
        rows = [row for row in owner.get("/audit", thread_id=thread_id, event="cancelled")["items"]]
        assert one["run_id"] in [row["run_id"] for row in rows]
    said = owner.transcript(thread_id)
    assert [line for line in said if "may not sign in" in line[1]] == [("assistant", outcome["reply"])] * 2
    assert [text for role, text in said if role == "user" and any(one in text for one in texts)]
    assert (len(butler.workshop.effects(asked)), len(butler.workshop.effects(others))) == (1, 1)
