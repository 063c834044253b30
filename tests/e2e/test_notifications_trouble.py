"""Receivers that are down or slow, servers that are killed, and secrets that must not show (B7)."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
import yaml

from tests.support.orders import approve, call, fresh, park, reject
from tests.support.polling import wait_until
from tests.support.receiver import Receiver, link_in
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler

SECRETS = ("planted-pass-1", "planted-path-2", "planted-header-3", "planted-topic-4")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def statuses(server: ButlerServer) -> list[tuple[str, str, int]]:
    """What stands in the queue: kind, status, attempts."""
    with closing(sqlite3.connect(server.data / "butler.db", timeout=30)) as connection:
        return connection.execute("SELECT kind, status, attempts FROM notifications ORDER BY seq").fetchall()


def test_without_urls_nothing_is_queued(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    outcome = park(owner, fresh())
    owner.decided(outcome["thread_id"], reject(outcome["approvals"][0]))
    assert statuses(server) == []
    assert not (server.data / "links.key").exists()


def test_a_dead_or_slow_receiver_costs_a_turn_nothing_and_others_get_theirs(
    make_butler: MakeButler, receiver: Receiver
) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=f"{receiver.url('slow')} json://127.0.0.1:9/dead {receiver.url('good')}")
    receiver.hold("slow")
    owner = server.start().client()
    text = fresh()
    began = time.monotonic()
    outcome = park(owner, text)
    wait_until(lambda: receiver.tries("slow"), "the slow one is tried")
    owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    assert time.monotonic() - began < 10
    assert receiver.message("good", text)
    said = fresh("said")
    owner.chat(f"[[say {said}]]")
    assert receiver.message("good", f"> {said}")
    assert receiver.tries("slow") >= 1


def test_a_message_arrives_once_the_receiver_is_back(make_butler: MakeButler, receiver: Receiver) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=receiver.url("owner"))
    receiver.refuse("owner")
    owner = server.start().client()
    text = fresh()
    park(owner, text)
    wait_until(lambda: receiver.tries("owner"), "it is tried")
    checks = wait_until(lambda: owner.get("/readyz")["checks"].get("notifications"), "readyz names it")
    assert checks["ok"] is True
    assert "owner" in checks["detail"] and "503" in checks["detail"]
    listed = server.cli("notify", "list").stdout
    assert "queued: 1" in listed and "failing: owner's channel json#" in listed
    doctor = server.cli("doctor")
    assert doctor.returncode == 5
    assert "!! notifications: owner's channel json#" in doctor.stdout
    receiver.refuse("owner", False)
    receiver.message("owner", text)
    wait_until(lambda: statuses(server)[0][1] == "sent", "it counts as sent")
    assert "notifications" not in owner.get("/readyz")["checks"]


def test_what_was_decided_meanwhile_is_not_sent_any_more(make_butler: MakeButler, receiver: Receiver) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=receiver.url("owner"))
    receiver.refuse("owner")
    owner = server.start().client()
    text = fresh()
    outcome = park(owner, text)
    wait_until(lambda: receiver.tries("owner"), "it is tried")
    owner.decided(outcome["thread_id"], reject(outcome["approvals"][0]))
    receiver.refuse("owner", False)
    wait_until(lambda: statuses(server)[0][:2] == ("approval", "dropped"), "the request is dropped")
    assert [one for one in receiver.messages("owner") if text in one["message"] and "asks" in one["message"]] == []


@pytest.mark.parametrize("point", ["park_before", "park_after"])
def test_a_request_survives_the_death_of_the_server_before_it_is_sent(
    make_butler: MakeButler, receiver: Receiver, point: str
) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=receiver.url("owner"))
    receiver.refuse("owner")
    text = fresh()
    crash(server, point, call("append_line", text))
    assert receiver.messages("owner") == []
    receiver.refuse("owner", False)
    server.start()
    receiver.message("owner", text, 30)


def test_a_reply_survives_the_death_of_the_server_before_it_is_sent(
    make_butler: MakeButler, receiver: Receiver
) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=receiver.url("owner"))
    said = fresh("said")
    crash(server, "finish_after", f"[[say {said}]]")
    assert receiver.messages("owner") == []
    server.start()
    receiver.message("owner", f"> {said}")


def test_a_server_that_dies_between_sending_and_writing_it_down_sends_again(
    make_butler: MakeButler, receiver: Receiver
) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=receiver.url("owner"))
    owner = server.start(BUTLER_CRASH_AT="notified").client()
    text = fresh()
    owner.post("/chat", {"message": call("append_line", text), "wait": False})
    assert server.died() == -9
    assert len(receiver.messages("owner", text)) == 1
    server.start()
    wait_until(lambda: len(receiver.messages("owner", text)) == 2, "it arrives a second time")
    first, second = receiver.messages("owner", text)
    assert link_in(first) == link_in(second)


def crash(server: ButlerServer, point: str, message: str) -> None:
    """Say something that kills the server at that point."""
    owner = server.start(BUTLER_CRASH_AT=point).client()
    with pytest.raises(httpx.TransportError):
        owner.chat(message)
    assert server.died() == -9


def test_secrets_of_urls_show_nowhere(make_butler: MakeButler, receiver: Receiver, model: ScriptedModel) -> None:
    secret_url = f"json://user:{SECRETS[0]}@127.0.0.1:{receiver.port}/{SECRETS[1]}?+X-Key={SECRETS[2]}"
    server = make_butler(BUTLER_NOTIFY_URLS=secret_url, MIA_TOPIC=SECRETS[3])
    people = {"people": [{"user": "mia", "urls": [f"json://127.0.0.1:{receiver.port}/${{MIA_TOPIC}}"]}]}
    (server.config / "notify.yml").write_text(yaml.safe_dump(people))
    for path in SECRETS[1], SECRETS[3]:
        receiver.refuse(path)
    owner = server.start().client()
    mia = server.user_add("mia", "member")
    outcome = park(owner, fresh())
    mia.chat(f"[[say {' '.join(SECRETS[1:])}]]")
    for path in SECRETS[1], SECRETS[3]:
        wait_until(lambda path=path: receiver.tries(path), f"{path} is tried")  # type: ignore[misc]
    wait_until(lambda: "notifications" in owner.get("/readyz")["checks"], "the failure is known")
    told = mia.get("/readyz")["checks"]["notifications"]["detail"]
    assert told.endswith("channel(s) fail; an admin sees which.")
    shown = [
        json.dumps(owner.get("/readyz")), json.dumps(owner.get("/audit", limit=1000)),
        json.dumps(mia.get("/threads")), json.dumps(owner.approvals(outcome["thread_id"])),
    ]  # fmt: skip
    for command in (["doctor"], ["notify", "list"], ["notify", "test"], ["notify", "test", "mia"]):
        done = server.cli(*command)
        shown += [done.stdout, done.stderr]
    assert server.stop() == 0
    shown += [server.stderr, "".join(server.stdout)]
    shown += [
        path.read_bytes().decode("latin-1") for path in server.data.iterdir() if path.name.startswith("butler.db")
    ]
    for text in shown:
        for secret in SECRETS:
            assert secret not in text.replace(f"[[say {' '.join(SECRETS[1:])}]]", "")


def test_a_bad_url_stops_the_start_without_being_shown(make_butler: MakeButler) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS="tgram://planted-secret json://127.0.0.1/ok")
    (server.config / "notify.yml").write_text("people: [{user: mia, urls: ['slack://planted-secret']}]")
    process = server.launch()
    assert process.stdout is not None
    with process.stdout as output:
        printed = output.read()
    assert server.died() == 2
    assert "planted-secret" not in printed
    assert "BUTLER_NOTIFY_URLS: URL 1 of 2" in server.stderr
    assert "notify.yml:1: urls[0]: " in server.stderr
    assert "planted-secret" not in server.stderr
    assert "Traceback" not in server.stderr


def test_notify_test_says_what_came_of_each_channel(make_butler: MakeButler, receiver: Receiver) -> None:
    server = make_butler(
        BUTLER_NOTIFY_URLS=f"{receiver.url('good')},{receiver.url('bad')}", BUTLER_PUBLIC_URL="https://b.example/x/"
    )
    receiver.refuse("bad")
    done = server.cli("notify", "test")
    assert done.returncode == 5
    good, bad = done.stdout.splitlines()
    assert good.startswith("owner json#") and good.endswith(": sent")
    assert "503" in bad
    message = receiver.message("good", "Notifications for owner arrive here")
    assert "https://b.example/x." in message["message"]
    assert server.cli("notify", "test", "owner").returncode == 5
    nobody = server.cli("notify", "test", "mia")
    assert nobody.returncode == 5
    assert "owner" in nobody.stdout


def test_links_begin_with_the_public_url_if_one_is_set(make_butler: MakeButler, receiver: Receiver) -> None:
    server = make_butler(BUTLER_NOTIFY_URLS=receiver.url("owner"), BUTLER_PUBLIC_URL="https://butler.example/house")
    text = fresh()
    park(server.start().client(), text)
    assert "https://butler.example/house/decide/" in receiver.message("owner", text)["message"]


def test_an_unknown_user_in_the_file_is_named_by_the_doctor(make_butler: MakeButler, receiver: Receiver) -> None:
    server = make_butler()
    (server.config / "notify.yml").write_text(f"people: [{{user: ownr, urls: ['{receiver.url('x')}']}}]")
    server.start()
    assert "notify.yml names 'ownr', who is no user (did you mean 'owner'?)" in server.cli("doctor").stdout
