"""`GET /metrics`: who gets it, and that it moves with what happens."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.support.client import Client, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.server import ButlerServer


def read(client: Client) -> dict[tuple[str, ...], float]:
    """Every sample by its name and its labels' values."""
    response = client.request("GET", "/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_turns_approvals_and_model_calls_are_counted(butler: ButlerServer, owner: Client) -> None:
    before = read(owner)
    outcome = park(owner, fresh())
    parked = read(owner)
    owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    owner.chat(call("note_line", fresh()))
    after = read(owner)

    def more(new: dict[tuple[str, ...], float], old: dict[tuple[str, ...], float], *name: str) -> float:
        return new[name] - old.get(name, 0)

    assert more(parked, before, "butler_turns_total", "parked") == 1
    assert more(parked, before, "butler_approvals", "pending") == 1
    assert parked["butler_runs", "parked"] == before["butler_runs", "parked"] + 1
    assert more(after, parked, "butler_turns_total", "done") == 2
    assert more(after, parked, "butler_approvals", "approved") == 1
    assert more(after, before, "butler_turn_seconds_count") == 3
    assert more(after, before, "butler_model_calls_total", "chat") == 4
    assert more(after, before, "butler_model_input_tokens_total", "chat") > 0
    assert more(after, before, "butler_database_write_seconds_count") > 5


def test_who_sends_a_token_is_judged_by_it(butler: ButlerServer, owner: Client, member: Client) -> None:
    read(butler.client(None))
    read(owner)
    refused(member.request("GET", "/metrics"), 403, "forbidden")
    refused(butler.client("wrong").request("GET", "/metrics"), 401, "unauthorized")
    refused(butler.user_add(fresh("agent"), "agent").request("GET", "/metrics"), 403, "forbidden")
    wait_until(lambda: owner.get("/audit", event="attempt_refused")["items"], "the attempt is in the audit")


def test_what_a_proxy_passes_on_or_another_name_needs_a_token(butler: ButlerServer, owner: Client) -> None:
    nobody = butler.client(None)
    passed_on = [{name: "203.0.113.7"} for name in ("X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "X-Real-IP")]
    for headers in (*passed_on, {"Host": "butler.example:8710"}, {"Host": "["}):
        refused(nobody.request("GET", "/metrics", headers=headers), 401, "unauthorized")
    assert owner.request("GET", "/metrics", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 200
