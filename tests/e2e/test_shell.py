"""Decisions from the command line against a running server: what happens, what is printed, how it ends."""

from __future__ import annotations

import json
import sys

from butler.types import Json
from tests.support.client import Client
from tests.support.orders import call, fresh, park
from tests.support.polling import wait_until
from tests.support.server import ButlerServer
from tests.support.shell import shell


def parked(client: Client, *texts: str) -> list[Json]:
    """Park one call of append_line per text; gives the approvals."""
    approvals: list[Json] = park(client, *texts)["approvals"]
    return approvals


def test_approvals_lists_the_whole_call_and_how_to_answer(butler: ButlerServer, owner: Client) -> None:
    text = fresh("listed") + " " + "x" * 400
    [one] = parked(owner, text)
    done = shell(butler, "approvals", "--thread", one["thread_id"])
    assert (done.returncode, done.stderr) == (0, "")
    assert f'  arguments   text = "{text}"' in done.stdout.splitlines()
    for part in (one["code"], one["reason"], one["rule"], one["fingerprint"], f"butler approve {one['code']}"):
        assert part in done.stdout


def test_the_json_list_holds_every_page(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat("".join(call("append_line", fresh("page")) for _ in range(3)))["thread_id"]
    for _ in range(2):
        owner.chat(call("append_line", fresh("elsewhere")))
    done = shell(butler, "approvals", "--thread", thread, "--json")
    items = json.loads(done.stdout)["items"]
    assert items == owner.approvals(thread)
    assert len(items) == 3


def test_approve_by_code_runs_the_call_once_and_shows_its_result(butler: ButlerServer, owner: Client) -> None:
    text = fresh("by-code")
    [one] = parked(owner, text)
    done = shell(butler, "approve", one["code"].lower())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{one['code'].lower()}  append_line: approved, done", f"    wrote {text}"]
    assert len(butler.workshop.effects(text)) == 1


def test_approve_by_id_gives_one_json_document(butler: ButlerServer, owner: Client) -> None:
    text = fresh("by-id")
    [one] = parked(owner, text)
    done = shell(butler, "approve", one["action_id"], "--reason", "why not", "--json")
    assert done.returncode == 0, done.stderr
    [item] = json.loads(done.stdout)["items"]
    assert item["ok"] is True
    assert item["approval"] == owner.approval(one["action_id"])
    assert item["approval"]["decision"]["reason"] == "why not"
    assert item["approval"]["decision"]["via"] == "shell"
    assert item["result"] == f"wrote {text}\n"


def test_deciding_again_says_what_stands(butler: ButlerServer, owner: Client) -> None:
    [one] = parked(owner, fresh("twice"))
    assert shell(butler, "deny", one["code"], "--reason", "not today").returncode == 0
    done = shell(butler, "approve", one["action_id"])
    assert (done.returncode, done.stdout) == (5, "")
    assert "rejected by owner" in done.stderr
    assert "not today" in done.stderr


def test_deny_runs_nothing_and_keeps_the_reason(butler: ButlerServer, owner: Client) -> None:
    text = fresh("denied")
    [one] = parked(owner, text)
    done = shell(butler, "deny", one["code"], "--reason", "there is no stable")
    assert (done.returncode, done.stdout) == (0, f"{one['code']}  append_line: rejected\n")
    owner.when_status(one["thread_id"], "idle")
    assert butler.workshop.effects(text) == []
    assert owner.approval(one["action_id"])["decision"]["reason"] == "there is no stable"


def test_respond_answers_in_the_tools_place(butler: ButlerServer, owner: Client) -> None:
    text = fresh("answered")
    [one] = parked(owner, text)
    assert shell(butler, "respond", one["code"], "did it by hand").returncode == 0
    outcome = owner.when_run(one["run_id"], "done")
    assert outcome["approvals"] == []
    assert butler.workshop.effects(text) == []
    assert owner.approval(one["action_id"])["decision"]["decision"] == "respond"


def test_while_others_of_the_thread_wait_the_end_is_3(butler: ButlerServer, owner: Client) -> None:
    first, second = parked(owner, fresh("first"), fresh("second"))
    done = shell(butler, "approve", first["code"])
    assert done.returncode == 3
    assert done.stdout.splitlines()[-1] == f"Thread {first['thread_id']} still waits for: {second['code']}"
    assert shell(butler, "approve", second["code"]).returncode == 0


def test_several_at_once_have_one_result_each(butler: ButlerServer, owner: Client) -> None:
    texts = [fresh("many") for _ in range(3)]
    one, two, three = (parked(owner, text)[0] for text in texts)
    owner.decided(two["thread_id"], {"action_id": two["action_id"], "decision": "reject"})
    done = shell(butler, "approve", one["code"], two["action_id"], three["code"], "22222", one["action_id"])
    assert done.returncode == 5
    assert [line for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        f"{one['code']}  append_line: approved, done",
        f"{three['code']}  append_line: approved, done",
    ]
    assert f"butler: {two['action_id']}: " in done.stderr
    assert "butler: 22222: " in done.stderr
    assert [len(butler.workshop.effects(text)) for text in texts] == [1, 0, 1]


def test_several_denials_share_the_reason(butler: ButlerServer, owner: Client) -> None:
    pair = [parked(owner, fresh("bunch"))[0] for _ in range(2)]
    done = shell(butler, "deny", *(one["code"] for one in pair), "--reason", "too many")
    assert done.returncode == 0, done.stderr
    assert {owner.approval(one["action_id"])["decision"]["reason"] for one in pair} == {"too many"}


def test_arguments_given_as_json_run_instead(butler: ButlerServer, owner: Client) -> None:
    text, better = fresh("worse"), fresh("better")
    [one] = parked(owner, text)
    done = shell(butler, "approve", one["code"], "--args", json.dumps({"text": better}))
    assert done.returncode == 0, done.stderr
    assert "append_line: edited, done" in done.stdout
    assert butler.workshop.effects(text) == []
    assert len(butler.workshop.effects(better)) == 1


def test_arguments_that_do_not_fit_leave_it_waiting(butler: ButlerServer, owner: Client) -> None:
    [one] = parked(owner, fresh("misfit"))
    done = shell(butler, "approve", one["code"], "--args", '{"words": 1}')
    assert (done.returncode, done.stdout) == (2, "")
    assert "fit" in done.stderr
    assert owner.approval(one["action_id"])["status"] == "pending"


def test_arguments_are_changed_in_the_persons_editor(butler: ButlerServer, owner: Client) -> None:
    text = fresh("typo")
    [one] = parked(owner, text)
    editor = butler.home / "editor.py"
    editor.write_text(
        "import json, sys\n"
        "args = json.load(open(sys.argv[1]))\n"
        "args['text'] += ' corrected'\n"
        "json.dump(args, open(sys.argv[1], 'w'))\n"
    )
    done = shell(butler, "approve", one["code"], "--edit", EDITOR=f"{sys.executable} {editor}")
    assert done.returncode == 0, done.stderr
    assert len(butler.workshop.effects(f"{text} corrected")) == 1
    assert butler.workshop.effects(text) == []


def test_another_fingerprint_decides_nothing(butler: ButlerServer, owner: Client) -> None:
    [one] = parked(owner, fresh("stale"))
    done = shell(butler, "approve", one["code"], "--fingerprint", "0" * 64)
    assert (done.returncode, done.stdout) == (5, "")
    assert owner.approval(one["action_id"])["status"] == "pending"
    assert shell(butler, "approve", one["code"], "--fingerprint", one["fingerprint"]).returncode == 0


def test_without_waiting_it_ends_at_once(butler: ButlerServer, owner: Client) -> None:
    text = fresh("slow")
    outcome = owner.chat(call("slow_line", text))
    [one] = outcome["approvals"]
    done = shell(butler, "approve", one["code"], "--no-wait")
    assert (done.returncode, done.stdout) == (0, f"{one['code']}  slow_line: approved\n")
    wait_until(lambda: butler.workshop.begun(text), "it runs")
    assert butler.workshop.effects(text) == []
    butler.workshop.let_go()
    owner.when_run(one["run_id"], "done")


def test_a_wait_that_is_too_short_says_so(butler: ButlerServer, owner: Client) -> None:
    text = fresh("slower")
    [one] = owner.chat(call("slow_line", text))["approvals"]
    done = shell(butler, "approve", one["code"], "--timeout", "0.1")
    assert done.returncode == 5
    assert "it has not finished yet" in done.stdout
    butler.workshop.let_go()
    owner.when_run(one["run_id"], "done")


def test_a_member_sees_and_decides_only_what_is_theirs(butler: ButlerServer, owner: Client, member: Client) -> None:
    [foreign] = parked(owner, fresh("foreign"))
    [own] = parked(member, fresh("own"))
    [draft] = member.chat(call("delete_thing", target=fresh("draft")))["approvals"]
    as_member = {"BUTLER_TOKEN": str(member.token)}
    listed = json.loads(shell(butler, "approvals", "--json", **as_member).stdout)["items"]
    assert foreign["action_id"] not in {one["action_id"] for one in listed}
    for name in (foreign["code"], foreign["action_id"]):
        assert shell(butler, "approve", name, **as_member).returncode == 5
    assert shell(butler, "approve", own["code"], **as_member).returncode == 4
    assert owner.approval(foreign["action_id"])["status"] == "pending"
    assert owner.approval(own["action_id"])["status"] == "pending"
    assert shell(butler, "approve", draft["code"], **as_member).returncode == 0


def test_arguments_can_not_repaint_the_screen(butler: ButlerServer, owner: Client) -> None:
    text = fresh("paint") + "\x1b[2J\x1b]0;x\x07\u202e\r  risk        safe"
    [one] = parked(owner, text)
    for arguments in (["approvals", "show", one["code"]], ["approve", one["code"]]):
        done = shell(butler, *arguments)
        assert done.returncode == 0, done.stderr
        assert "\\u001b[2J" in done.stdout
        assert all(line.isprintable() for line in done.stdout.splitlines())


def test_show_finds_decided_ones_by_id(butler: ButlerServer, owner: Client) -> None:
    [one] = parked(owner, fresh("shown"))
    shell(butler, "approve", one["code"])
    done = shell(butler, "approvals", "show", one["action_id"])
    assert done.returncode == 0
    assert "decided     approved by owner" in done.stdout
    assert json.loads(shell(butler, "approvals", "show", one["action_id"], "--json").stdout)["items"][0]["code"] is None
    assert shell(butler, "approvals", "show", one["code"]).returncode == 5


def test_threads_are_listed_with_what_waits(butler: ButlerServer, owner: Client) -> None:
    [one] = parked(owner, fresh("thread"))
    done = shell(butler, "threads", "--parked", "--json")
    [thread] = [item for item in json.loads(done.stdout)["items"] if item["thread_id"] == one["thread_id"]]
    assert thread["pending"] == 1
    assert f"{one['thread_id']}  parked, 1 waiting" in shell(butler, "threads").stdout


def test_a_pending_approval_is_found_by_its_code_alone(owner: Client) -> None:
    one, _ = (*parked(owner, fresh("wanted")), *parked(owner, fresh("beside")))
    assert [item["action_id"] for item in owner.get("/approvals", code=one["code"].lower())["items"]] == [
        one["action_id"]
    ]
    assert owner.get("/approvals", code="22222222")["items"] == []


def test_who_may_not_decide_is_told_who_may_and_no_command(butler: ButlerServer, owner: Client, member: Client) -> None:
    one = park(member, fresh("not mine"))["approvals"][0]
    token = str(member.token)
    listed = shell(butler, "approvals", BUTLER_TOKEN=token).stdout
    card = listed[listed.index(f"{one['code']}  append_line") :]
    assert "waits for admin, not for you" in card
    assert f"butler approve {one['code']}" not in listed
    assert "waits for admin" in shell(butler, "approvals", "show", one["action_id"], BUTLER_TOKEN=token).stdout
    typed = member.chat("/approvals")["reply"]
    assert "waits for admin, not for you" in typed
    assert "/approve CODE" not in typed
    assert f"butler approve {one['code']}" in shell(butler, "approvals").stdout
    assert "/approve CODE" in owner.chat("/approvals")["reply"]
    assert member.approval(one["action_id"]) == one == owner.approval(one["action_id"])


def test_a_thread_is_read_searched_and_deleted(butler: ButlerServer, owner: Client) -> None:
    word = fresh("readable")
    thread = owner.chat(f"{word} \x1b[2J")["thread_id"]
    shown = shell(butler, "threads", "show", thread).stdout
    assert f"    {word} \\u001b[2J" in shown
    assert f"    You said: {word}" in shown
    assert thread in shell(butler, "threads", "search", word).stdout
    assert shell(butler, "threads", "search", fresh("absent")).stdout == "Nothing was found.\n"
    done = shell(butler, "threads", "delete", thread)
    assert (done.returncode, done.stdout) == (0, f"{thread}: deleted\n")
    assert shell(butler, "threads", "show", thread).returncode == 5
    assert shell(butler, "threads", "delete", thread).returncode == 5


def test_a_long_thread_is_read_whole(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat("/help")["thread_id"]
    for number in range(120):
        owner.chat(f"/nothing number={number}", thread)
    messages = json.loads(shell(butler, "threads", "show", thread, "--json").stdout)["messages"]
    assert len(messages) == 242
    assert [one["text"] for one in messages if one["role"] == "user"][1:4] == [
        f"/nothing number={number}" for number in range(3)
    ]
