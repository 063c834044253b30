"""An answer that names nothing counts for what its sender saw, however often it is sent."""

from __future__ import annotations

import pytest

from tests.support.client import Client, Json
from tests.support.orders import call, fresh
from tests.support.polling import wait_until
from tests.support.server import ButlerServer

BY_PLACE: list[Json] = [{"answer": {"approved": True}}, {"decisions": [{"type": "approve"}]}]


def parked_behind(butler: ButlerServer, client: Client, body: Json) -> tuple[str, str]:
    """Answer one action by place while another message waits behind it; gives the thread and the second one's text."""
    first, second = fresh("first"), fresh("second")
    thread: str = client.chat(call("append_line", first))["thread_id"]
    client.chat(call("append_line", second), thread)
    assert client.post(f"/threads/{thread}/resume", body).json()["status"] == "done"
    wait_until(lambda: client.get(f"/threads/{thread}")["status"] == "parked", "the second message waits")
    return thread, second


@pytest.mark.parametrize("body", BY_PLACE)
def test_the_same_answer_once_more_approves_nothing_that_was_not_shown(
    butler: ButlerServer, owner: Client, body: Json
) -> None:
    thread, second = parked_behind(butler, owner, body)
    again = owner.post(f"/threads/{thread}/resume", body)
    assert (again.status_code, again.json()["code"]) == (409, "stale_decision")
    [pending] = owner.approvals(thread)
    assert again.json()["fingerprint"] == pending["fingerprint"]
    assert butler.workshop.effects(second) == []


@pytest.mark.parametrize("body", BY_PLACE)
def test_once_it_was_looked_at_the_answer_counts(butler: ButlerServer, owner: Client, body: Json) -> None:
    thread, second = parked_behind(butler, owner, body)
    owner.approvals(thread)
    assert owner.post(f"/threads/{thread}/resume", body).json()["status"] == "done"
    assert len(butler.workshop.effects(second)) == 1


def test_a_first_answer_counts_also_unseen(butler: ButlerServer, owner: Client) -> None:
    text = fresh("unseen")
    run = owner.chat(call("append_line", text), wait=False)
    wait_until(lambda: owner.get(f"/threads/{run['thread_id']}")["status"] == "parked", "it waits")
    assert owner.post(f"/threads/{run['thread_id']}/resume", BY_PLACE[0]).json()["status"] == "done"
