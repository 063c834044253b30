"""Grants from the command line: tried, given with an approval, listed, taken back."""

from __future__ import annotations

import json

from butler.types import Json
from tests.support.client import Client
from tests.support.orders import call, fresh, park
from tests.support.server import ButlerServer
from tests.support.shell import Terminal, shell


def parked(client: Client, text: str) -> Json:
    """Park one call; gives its approval."""
    one: Json = park(client, text)["approvals"][0]
    return one


def granted(butler: ButlerServer, one: Json, *options: str) -> Json:
    """Approve with a grant; gives the grant."""
    done = shell(butler, "approve", one["code"], "--json", "--grant", *options)
    assert done.returncode == 0, done.stderr + done.stdout
    grant: Json = json.loads(done.stdout)["items"][0]["grant"]
    return grant


def test_a_grant_lets_later_calls_pass_until_it_is_revoked(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("granted")
    one = parked(owner, f"{prefix} 1")
    grant = granted(butler, one, "user", "--match", f"text={prefix} *", "--expires-in", "8h", "--uses", "5")
    assert (grant["scope"], grant["args"], grant["uses_left"]) == ("user", {"text": f"{prefix} *"}, 5)
    assert owner.chat(call("append_line", f"{prefix} 2"))["status"] == "done"
    listed = shell(butler, "grants")
    assert f"{grant['grant_id']}  append_line" in listed.stdout
    assert f'matches     text = "{prefix} *"' in listed.stdout
    assert "for         whatever is asked for by the user owner\n" in listed.stdout
    done = shell(butler, "grants", "revoke", grant["grant_id"])
    assert (done.returncode, done.stdout) == (0, f"{grant['grant_id']}: revoked\n")
    assert owner.chat(call("append_line", f"{prefix} 3"))["status"] == "parked"
    everything = json.loads(shell(butler, "grants", "list", "--all", "--json").stdout)["items"]
    assert [item["state"] for item in everything if item["grant_id"] == grant["grant_id"]] == ["revoked"]


def test_a_grant_that_a_rule_makes_useless_says_so_wherever_it_is_listed(butler: ButlerServer, member: Client) -> None:
    [draft] = member.chat(call("delete_thing", target=fresh("draft")))["approvals"]
    grant = granted(butler, draft, "user")
    assert "keeps asking" in grant["note"]
    [listed] = [item for item in member.get("/grants")["items"] if item["grant_id"] == grant["grant_id"]]
    assert listed["note"] == grant["note"]
    card = shell(butler, "grants").stdout.partition(grant["grant_id"])[2]
    assert f"  note        {grant['note']}" in card


def test_without_patterns_a_grant_covers_that_very_call_only(butler: ButlerServer, owner: Client) -> None:
    text = fresh("exact")
    granted(butler, parked(owner, text), "user")
    assert owner.chat(call("append_line", text))["status"] == "done"
    assert owner.chat(call("append_line", f"{text} more"))["status"] == "parked"


def test_a_wide_grant_needs_the_confirming_flag(butler: ButlerServer, owner: Client) -> None:
    one = parked(owner, fresh("wide"))
    done = shell(butler, "approve", one["code"], "--grant", "thread", "--any-arguments")
    assert (done.returncode, done.stdout) == (2, "")
    assert owner.approval(one["action_id"])["status"] == "pending"
    grant = granted(butler, one, "thread", "--any-arguments", "--confirm", "--uses", "1")
    assert grant["args"] == {}


def test_a_preview_shows_recorded_calls_and_grants_nothing(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("tried")
    for number in range(2):
        shell(butler, "approve", parked(owner, f"{prefix} {number}")["code"])
    one = parked(owner, f"{prefix} last")
    before = owner.get("/grants")
    done = shell(butler, "grants", "preview", one["code"], "--scope", "user", "--match", f"text={prefix} *")
    assert done.returncode == 0, done.stderr
    assert f"{prefix} 0" in done.stdout
    assert f"{prefix} 1" in done.stdout
    proposals = shell(butler, "grants", "preview", one["code"])
    assert proposals.returncode == 0, proposals.stderr
    assert "would cover" in proposals.stdout
    assert owner.get("/grants") == before
    assert owner.approval(one["action_id"])["status"] == "pending"


def test_at_a_terminal_the_preview_stands_before_the_question(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("asked")
    shell(butler, "approve", parked(owner, f"{prefix} 1")["code"])
    one = parked(owner, f"{prefix} 2")
    with Terminal(butler, "approve", one["code"], "--grant", "user", "--match", f"text={prefix} *") as terminal:
        shown = terminal.until("[y/N]")
        assert "would cover" in shown
        assert f"{prefix} 1" in shown
        terminal.type("y")
        assert terminal.ended() == 0
    assert owner.chat(call("append_line", f"{prefix} 3"))["status"] == "done"


def test_at_a_terminal_a_wide_grant_without_the_flag_is_not_even_asked_for(butler: ButlerServer, owner: Client) -> None:
    one = parked(owner, fresh("wide"))
    with Terminal(butler, "approve", one["code"], "--grant", "everyone", "--any-arguments") as terminal:
        assert terminal.ended() == 2
    assert "--confirm" in terminal.shown
    assert "[y/N]" not in terminal.shown
    assert owner.approval(one["action_id"])["status"] == "pending"


def test_revoking_what_is_not_there_ends_with_5_and_the_rest_is_revoked(butler: ButlerServer, owner: Client) -> None:
    grant = granted(butler, parked(owner, fresh("gone")), "thread")
    done = shell(butler, "grants", "revoke", "no-such-grant", grant["grant_id"], "--json")
    assert done.returncode == 5
    assert [item["ok"] for item in json.loads(done.stdout)["items"]] == [False, True]
    assert grant["grant_id"] not in {item["grant_id"] for item in owner.get("/grants")["items"]}


def test_a_member_gives_no_grant_for_everyone(butler: ButlerServer, owner: Client, member: Client) -> None:
    [draft] = member.chat(call("delete_thing", target=fresh("draft")))["approvals"]
    done = shell(butler, "approve", draft["code"], "--grant", "everyone", BUTLER_TOKEN=str(member.token))
    assert done.returncode == 4
    assert owner.approval(draft["action_id"])["status"] == "pending"
