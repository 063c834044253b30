"""Many at once: parallel threads, and another program that holds the databases' locks."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.client import Client, good
from tests.support.orders import approve, call, fresh, park, together
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler

LOCK_SECONDS = 8.0


def test_twelve_threads_at_once_each_get_their_own_answers_and_effects(butler: ButlerServer, owner: Client) -> None:
    texts = [fresh(str(n)) for n in range(12)]

    def talk(text: str) -> str:
        parked = park(owner, text)
        done = owner.decided(parked["thread_id"], approve(parked["approvals"][0]))
        assert done["status"] == "done"
        assert f"wrote {text}" in done["reply"]
        again = fresh("again")
        reply: str = owner.chat(again, parked["thread_id"])["reply"]
        assert reply.startswith(f"You said: {again}")
        return text

    assert together(talk, texts) == texts
    for text in texts:
        assert len(butler.workshop.effects(text)) == 1


def test_decisions_on_different_actions_of_one_thread_at_once_all_count(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    texts = [fresh(str(n)) for n in range(6)]
    parked = park(owner, *texts)
    responses = together(lambda a: owner.resume(parked["thread_id"], approve(a)), parked["approvals"])
    assert [response.status_code for response in responses] == [200] * 6
    owner.when_run(parked["run_id"], "done")
    for text in texts:
        assert len(butler.workshop.effects(text)) == 1
    assert len(model.requests(texts[0])) == 2


@contextmanager
def foreign_lock(folder: Path) -> Iterator[list[Path]]:
    """Hold the write lock of every database in the folder for some seconds, as a backup program might."""
    paths = sorted(folder.glob("*.db"))
    connections = [sqlite3.connect(p, timeout=30, isolation_level=None, check_same_thread=False) for p in paths]
    for connection in connections:
        connection.execute("BEGIN IMMEDIATE")

    def release() -> None:
        for connection in connections:
            connection.execute("ROLLBACK")

    timer = threading.Timer(LOCK_SECONDS, release)
    timer.start()
    try:
        yield paths
    finally:
        timer.join()
        for connection in connections:
            connection.close()


def test_while_another_program_holds_the_databases_nothing_is_lost(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    old = owner.chat(fresh())["thread_id"]
    approved = fresh("approved")
    parked = park(owner, approved)
    messages = {fresh("new"): None, fresh("old"): old, call("note_line", fresh("tool")): None}
    with foreign_lock(server.data) as paths:
        assert {path.name for path in paths} >= {"butler.db", "checkpoints.db"}
        begun = time.monotonic()

        def say(item: tuple[str, str | None] | None) -> httpx.Response:
            if item is None:
                return owner.resume(parked["thread_id"], approve(parked["approvals"][0]))
            message, thread = item
            return owner.post("/chat", {"message": message} | ({"thread_id": thread} if thread else {}))

        alive = server.client(None)
        assert alive.request("GET", "/healthz", timeout=LOCK_SECONDS / 2).status_code == 200
        responses = together(say, [*messages.items(), None])
        assert time.monotonic() - begun >= LOCK_SECONDS - 1, "the lock was really held"
    for response in responses:
        assert good(response)["status"] == "done", response.text
    for message, response in zip(messages, responses, strict=False):
        assert owner.transcript(response.json()["thread_id"])[-2][1] == message
    assert len(server.workshop.effects(approved)) == 1
    assert server.stop() == 0
