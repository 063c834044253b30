"""An open stream tells nobody more than they may know now: tokens that end, admins that are none any more (F2)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from tests.support.client import Client, Json, good
from tests.support.openai_sdk import ask, sdk, user
from tests.support.orders import fresh
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


class Held:
    """A turn of somebody that waits at the model after its first words; the rest is a secret of theirs."""

    def __init__(self, person: Client, model: ScriptedModel) -> None:
        self.gate, self.secret, self._model = fresh("gate"), fresh("secret"), model
        self.message = f"[[hold {self.gate} 2]][[say first words {self.secret}]]"
        begun = person.chat(self.message, wait=False)
        self.thread_id, self.run_id = begun["thread_id"], begun["run_id"]
        wait_until(lambda: model.requests(self.gate), "the turn is at the model")

    def go_on(self) -> None:
        self._model.release(self.gate)


@pytest.fixture
def admin(butler: ButlerServer) -> Iterator[Client]:
    """A second admin, whose name is the client's."""
    yield butler.user_add(fresh("admin"), "admin")


def change(owner: Client, person: Client, **what: object) -> None:
    name = person.get("/me")["name"]
    good(owner.request("PATCH", f"/users/{name}", json=what))


@pytest.mark.parametrize("what", [{"role": "member"}, {"disabled": True}, {"role": "agent"}], ids=str)
def test_who_is_no_admin_any_more_hears_no_more_of_others_runs(
    owner: Client, member: Client, admin: Client, model: ScriptedModel, what: Json
) -> None:
    held = Held(member, model)
    with admin.stream("GET", f"/runs/{held.run_id}/events") as stream:
        while stream.text() != "first words":
            stream.until("token")
        change(owner, admin, **what)
        held.go_on()
        events = stream.rest()
    assert [one.event for one in events][-2:] == ["notice", "end"]
    assert [one.event for one in events].count("end") == 1
    assert "may not see this run" in events[-2].data["text"]
    assert (events[-1].data["status"], events[-1].data["reply"]) == ("running", "")
    assert {events[-1].data[name] for name in ("run_id", "thread_id")} == {held.run_id, held.thread_id}
    assert held.secret not in str(events)
    assert member.when_run(held.run_id, "done")["reply"].endswith(held.secret)


@pytest.mark.parametrize("what", [{"disabled": True}, {"role": "agent"}], ids=str)
def test_who_is_shut_out_hears_no_more_of_its_own_run_either(
    owner: Client, admin: Client, model: ScriptedModel, what: Json
) -> None:
    held = Held(admin, model)
    with admin.stream("GET", f"/runs/{held.run_id}/events") as stream:
        stream.until("token")
        change(owner, admin, **what)
        held.go_on()
        assert [one.event for one in stream.rest()][-2:] == ["notice", "end"]
    assert held.secret not in str(stream.events)


def test_who_is_shut_out_while_it_waits_gets_no_answer(owner: Client, admin: Client, model: ScriptedModel) -> None:
    gate, secret = fresh("gate"), fresh("secret")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(admin.post, "/chat", {"message": f"[[hold {gate} 0]][[say {secret}]]"})
        wait_until(lambda: model.requests(gate), "the turn is at the model")
        change(owner, admin, disabled=True)
        model.release(gate)
        answer = waiting.result(20)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert secret not in answer.text


def test_who_becomes_a_member_goes_on_hearing_its_own_run(owner: Client, admin: Client, model: ScriptedModel) -> None:
    held = Held(admin, model)
    with admin.stream("GET", f"/runs/{held.run_id}/events") as stream:
        stream.until("token")
        change(owner, admin, role="member")
        held.go_on()
        assert stream.rest()[-1].data["reply"].endswith(held.secret)


def test_an_openai_stream_ends_with_an_error(
    butler: ButlerServer, owner: Client, member: Client, admin: Client, model: ScriptedModel
) -> None:
    thread, gate, secret = member.chat(fresh())["thread_id"], fresh("gate"), fresh("secret")
    with sdk(butler, admin.token) as client:
        message = user(f"[[hold {gate} 2]][[say first words {secret}]]")
        stream = ask(client, message, stream=True, metadata={"thread_id": thread})
        seen = ""
        with pytest.raises(openai.APIError) as ended:
            for chunk in stream:
                seen += chunk.choices[0].delta.content or ""
                if seen == "first words":
                    change(owner, admin, role="member")
                    model.release(gate)
    assert ended.value.code == "not_found"
    assert secret not in seen
