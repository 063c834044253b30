"""Maids that lie, ask, hang, flood, stray, loop, or need three tries: each ends in its class, and nothing is left (D7).

Each row is one maid of the tests' own making; see `tests/support/maids.py` for what it does.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.support.client import Client, Json
from tests.support.maids import MaidShop, when_task
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

EVIDENCE = {
    "maid_id", "kind", "model", "prompt", "argv", "exit_code", "claim", "stdout_tail", "stderr_tail", "output_bytes",
    "failure_class", "failure", "checks", "changed_files", "diff", "permissions", "duration", "tokens", "stopped",
    "left_behind", "verification",
}  # fmt: skip
"""What every attempt has to tell (D9)."""
MAIDS: list[tuple[str, str, list[str | None]]] = [
    ("lie about it", "scripted", ["false_completion"] * 2),
    ("ask me", "scripted", ["asked_question"] * 2),
    ("nothing at all", "scripted", ["no_changes"] * 2),
    ("hang with grandchildren", "hanging", ["hung_foreground"] * 2),
    ("flood a gigabyte", "hasty", ["policy_violation"]),
    ("astray", "scripted", ["wrong_directory"] * 2),
    ("repeat yourself", "scripted", ["loop_detected"] * 2),
    ("third time lucky", "scripted", ["wrong_output", "wrong_output", None]),
    ("grumble but do it", "scripted", [None]),
]
"""The instruction, the maid, and the class of each execution; two that fail identically are enough."""


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaidShop]:
    server = ButlerServer(tmp_path_factory.mktemp("maids"), shared_model.url)
    made = MaidShop(server)
    server.start()
    yield made
    server.close()


@pytest.fixture(scope="module")
def owner(shop: MaidShop) -> Client:
    return shop.server.client()


def processes_of(attempts: list[Json]) -> list[str]:
    """Living processes that carry the mark of one of these attempts."""
    marks = [f"MAID_RUN={one['attempt_id']}".encode() for one in attempts]
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        found += [name] if any(mark in environ for mark in marks) else []
    return found


def listening(server: psutil.Process) -> set[int]:
    """The ports on which the server, or anything below it, listens."""
    everything = [server, *server.children(recursive=True)]
    return {one.laddr.port for each in everything for one in each.net_connections("tcp") if one.status == "LISTEN"}


def files_of(shop: MaidShop) -> set[str]:
    """All files below the data folder and beside the project, but for the databases and the log."""
    places = (shop.server.data, shop.project)
    found = [path for place in places for path in place.rglob("*") if not {".git", "kept-trees"} & {*path.parts}]
    return {str(path) for path in found if not path.name.startswith(("butler.", "check", "maids", "apply.lock"))}


@pytest.mark.parametrize(("what", "maid_id", "classes"), MAIDS, ids=[one[0] for one in MAIDS])
def test_each_ends_in_its_class_with_whole_evidence_and_nothing_left(
    shop: MaidShop, owner: Client, what: str, maid_id: str, classes: list[str | None]
) -> None:
    assert shop.server.process is not None
    server = psutil.Process(shop.server.process.pid)
    files, ports, memory = files_of(shop), listening(server), server.memory_info().rss
    peak = memory
    word = what.split()[0]
    instruction = f"{word} {shop.project} please" if word == "astray" else what
    ids = shop.begin(owner, instruction, maid_id=maid_id)

    def ended() -> Json | None:
        nonlocal peak
        peak = max(peak, server.memory_info().rss)
        task = owner.get(f"/maid-runs/{ids['maid_run_id']}")
        return task if task["status"] in ("failed", "waiting_approval", "succeeded", "unverified") else None

    task = wait_until(ended, f"{what} has ended", 60.0)
    attempts = task["attempts"]
    assert [one["failure_class"] for one in attempts] == classes, [one.get("failure") for one in attempts]
    assert len(attempts) == shop.runs(word) <= 3
    for one in attempts:
        assert one.keys() >= EVIDENCE and "cut" not in one
        assert one["argv"][-2] == instruction and instruction in one["prompt"] and one["duration"] > 0
        assert [check["name"] for check in one["checks"]] == ["out.txt"] and one["checks"][0]["expected"]
        assert one["checks"][0]["outcome"] == ("passed" if one["failure_class"] is None else "failed")
    for before, after in pairwise(attempts):
        assert (
            before["failure_class"] in after["prompt"]
            and before["checks"][0]["actual"].splitlines()[-1] in after["prompt"]
        )
    if classes[-1] is None:
        [waiting] = task["approvals"]
        assert attempts[-1]["exit_code"] == (1 if word == "grumble" else 0)
        assert (shop.out(), len(waiting["args"]["attempts"])) == (None, len(classes))
        assert owner.post(f"/approvals/{waiting['action_id']}", {"decision": "approve"}).status_code == 200
        assert when_task(owner, ids["maid_run_id"], "succeeded", "failed")["status"] == "succeeded"
        assert shop.out() == "formatted\n"
        (shop.project / "out.txt").unlink()
    else:
        assert task["status"] == "failed" and str(classes[-1]) in task["reason"]
        reply = owner.when_run(ids["run_id"], "done")["reply"]
        assert str(classes[-1]) in reply and "Butler does not do the work itself" in reply
    match word:
        case "hang":
            assert all(one["left_behind"] >= 2 for one in attempts), attempts
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int((shop.state / "port").read_text())), 1.0)
        case "flood":
            written = (shop.state / "written").stat().st_size * 65536
            assert 1_000_000 <= attempts[0]["output_bytes"] <= written < 64 * 1024**2
            assert peak - memory < 64 * 1024**2, "memory stays bounded"
            assert sum(path.lstat().st_size for path in shop.server.data.rglob("*")) < 64 * 1024**2
        case "astray":
            assert attempts[0]["changed_outside"] == ["stray.txt"]
            (shop.project / "stray.txt").unlink()
    wait_until(lambda: not shop.folders and not shop.worktrees, "the trees of the task are gone")
    assert processes_of(attempts) == []
    assert (files_of(shop), listening(server)) == (files, ports)


def test_a_tree_that_is_kept_is_told_of_and_taken_away_on_request(shop: MaidShop, owner: Client) -> None:
    ids = shop.begin(owner, "lie and be looked at", maid_id="hanging")
    when_task(owner, ids["maid_run_id"], "failed")
    wait_until(lambda: not shop.folders and not shop.worktrees, "the folder of the task is gone")
    [kept] = owner.get(f"/maid-runs/{ids['maid_run_id']}")["kept_trees"]
    assert (Path(kept["path"]) / "readme.txt").read_text() == "a project\n"
    shown = shop.server.cli("maids", "show", ids["maid_run_id"]).stdout
    assert f"kept until {kept['kept_until']}: {kept['path']}" in shown
    shop.server.restart()
    again = shop.server.client()
    assert again.get(f"/maid-runs/{ids['maid_run_id']}")["kept_trees"] == [kept]
    assert ids["maid_run_id"] in shop.server.cli("maids", "clean", "--dry-run").stdout
    assert Path(kept["path"]).is_dir()
    assert shop.server.cli("maids", "clean", ids["maid_run_id"]).returncode == 0
    assert again.get(f"/maid-runs/{ids['maid_run_id']}")["kept_trees"] == []
    assert not Path(kept["path"]).exists()
