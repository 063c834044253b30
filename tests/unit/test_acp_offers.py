"""Files and terminals that Butler serves to an agent, kept inside its tree (D4, D11)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.maids.acp import AcpLauncher, Offer, default_offer
from butler.maids.acp.files import Refused, TreeFiles
from butler.maids.acp.places import Place
from butler.maids.contract import Stop
from config.maid_types import Limits
from tests.support import acp_agent
from tests.support.acp_launch import ALL, Diary, Json, Room


@pytest.fixture
def room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Room]:
    yield Room(tmp_path)
    assert caplog.records == []


def call(method: str, **params: object) -> Json:
    return {"call": [method, params]}


WAIT = call("terminal/wait_for_exit", terminalId="{terminal}")
OUTPUT = call("terminal/output", terminalId="{terminal}")


def test_only_goose_is_offered_files_and_terminals(room: Room) -> None:
    maid = room.launch().maid
    assert default_offer(maid) == Offer()
    assert default_offer(replace(maid, kind="goose")) == ALL
    assert default_offer(replace(maid, command_template=("/opt/bin/goose", "acp"))) == ALL


async def test_files_of_the_tree_are_written_and_read(room: Room) -> None:
    await room.run(
        call("fs/write_text_file", path="deep/er/a.txt", content="one\ntwo\nthree\n"),
        call("fs/write_text_file", path=str(room.tree / "b.txt"), content="long before"),
        call("fs/write_text_file", path=str(room.tree / "b.txt"), content="ü"),
        call("fs/read_text_file", path="deep/er/a.txt"),
        call("fs/read_text_file", path="deep/er/a.txt", line=2, limit=1),
        call("fs/read_text_file", path="missing.txt"),
        offer=ALL,
    )
    assert (room.tree / "b.txt").read_text() == "ü"
    *_, whole, line, missing = room.answers()
    assert (whole, line) == ({"content": "one\ntwo\nthree\n"}, {"content": "two\n"})
    assert missing["error"]["code"] == -32002
    assert room.said("initialize")[0]["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}


async def test_what_leaves_the_tree_is_refused_and_told(room: Room) -> None:
    outside = room.tree.parent / "outside.txt"
    outside.write_text("secret")
    (room.tree / "link").symlink_to(room.tree.parent)
    (room.tree / "file").symlink_to(outside)
    os.mkfifo(room.tree / "pipe")
    paths = ["../outside.txt", "link/outside.txt", "file", str(outside), "~/x", "a\0b", ".", ".git/config", "pipe"]
    _, diary = await room.run(
        *(call("fs/write_text_file", path=path, content="bad") for path in paths),
        *(call("fs/read_text_file", path=path) for path in ("file", "link/outside.txt", "pipe", ".")),
        offer=ALL,
    )
    assert [answer["error"]["code"] for answer in room.answers()] == [-32602] * 13
    assert outside.read_text() == "secret"
    assert sorted(path.name for path in room.tree.parent.iterdir()) == ["home", "outside.txt", "temp", "tree"]
    told = [(use.kind, use.status, use.locations[0]) for use in diary.tools]
    assert told[:3] == [("edit", "failed", outside)] * 3
    assert ("read", "failed", outside) in told


@given(st.lists(st.sampled_from(["..", ".", "in", "out", "a", "~", "", "deep"]), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    base = tmp_path_factory.getbasetemp() / "jail"
    tree = base / "tree"
    (tree / "deep").mkdir(parents=True, exist_ok=True)
    for name, target in (("in", "deep"), ("out", ".."), ("deep/out", "../..")):
        if not (tree / name).is_symlink():
            (tree / name).symlink_to(target)
    before = sorted(path.name for path in base.iterdir())
    said = "/".join(names) + "/written"
    place = Place.of(tree, base)
    try:
        written = TreeFiles(place).write(said, "x")
    except (Refused, OSError):
        pass_through = place.resolve(said)
        assert not place.is_inside(pass_through) or not pass_through.is_file()
    else:
        assert Path(os.path.realpath(written)).is_relative_to(tree)
        written.unlink()
    assert sorted(path.name for path in base.iterdir()) == before


async def test_a_link_that_comes_between_the_check_and_the_write_is_not_followed(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.mkdir()

    class Late(Place):
        def inside_parts(self, said: str) -> tuple[str, ...] | None:
            parts = super().inside_parts(said)
            (tree / "a").symlink_to(outside)
            return parts

    with pytest.raises(OSError):
        TreeFiles(Late.of(tree, tmp_path)).write("a/x", "bad")
    assert list(outside.iterdir()) == []


async def test_a_terminal_runs_in_the_tree_with_the_attempts_own_environment(room: Room) -> None:
    (room.tree / "sub").mkdir()
    show = "pwd; printenv HOME EXTRA; printenv MAID_RUN; printenv BASH_ENV LD_PRELOAD GIT_SSH_COMMAND; exit 3"
    names = ("EXTRA", "MAID_RUN", "HOME", "BASH_ENV", "LD_PRELOAD", "GIT_SSH_COMMAND")
    variables = [{"name": name, "value": "more"} for name in names]
    _, diary = await room.run(
        call("terminal/create", command=show, cwd="sub", env=variables),
        WAIT,
        OUTPUT,
        call("terminal/create", command="echo", args=["$HOME", "a b"]),
        WAIT,
        OUTPUT,
        offer=ALL,
    )
    _, ended, said, _, _, plain = room.answers()
    assert ended == {"exitCode": 3}
    expected = [str(room.tree / "sub"), str(room.home), "more", f"{room.attempt_id}.1"]
    assert said["output"].splitlines() == expected
    assert plain["output"] == "$HOME a b\n"
    assert [request.command for request in diary.requests] == [show, ("echo", "$HOME", "a b")]
    assert diary.requests[0].paths == (room.tree / "sub",)


async def test_a_refused_command_does_not_run_and_neither_does_one_outside(room: Room) -> None:
    finished, diary = await room.run(
        call("terminal/create", command="touch", args=["made"]),
        call("terminal/create", command="touch made", cwd=".."),
        call("terminal/output", terminalId="terminal-7"),
        diary=Diary("reject"),
        offer=ALL,
    )
    assert [answer["error"]["code"] for answer in room.answers()] == [-32602, -32602, -32002]
    assert list(room.tree.iterdir()) == []
    assert len(diary.requests) == 1
    assert finished.stop_reason == "end_turn"


async def test_a_command_that_nobody_rules_on_parks_the_attempt(room: Room) -> None:
    finished, _ = await room.run(call("terminal/create", command="touch made"), diary=Diary("cancel"), offer=ALL)
    assert finished.awaits_permission
    assert list(room.tree.iterdir()) == []


async def test_output_is_bounded_and_keeps_its_end(room: Room) -> None:
    await room.run(
        call("terminal/create", command="printf 'äöü%.0s' $(seq 1 200); printf end", outputByteLimit=10),
        WAIT,
        OUTPUT,
        offer=ALL,
    )
    said = room.answers()[-1]
    assert (said["output"], said["truncated"]) == ("äöüend"[-6:], True)


async def test_terminals_are_killed_released_and_end_with_the_attempt(room: Room) -> None:
    serve = call("terminal/create", command="echo up; sleep 300 & sleep 300")
    finished, _ = await room.run(
        serve,
        call("terminal/kill", terminalId="{terminal}"),
        WAIT,
        OUTPUT,
        call("terminal/release", terminalId="{terminal}"),
        OUTPUT,
        serve,
        {"say": "done"},
        offer=ALL,
    )
    _, _, ended, said, _, gone, _ = room.answers()
    assert ended["signal"] in ("SIGTERM", "SIGKILL")
    assert said["exitStatus"] == ended
    assert gone["error"]["code"] == -32002
    assert finished.stop_reason == "end_turn"


async def test_a_server_in_the_foreground_is_seen_as_hung_and_a_flood_of_output_is_cut_off(room: Room) -> None:
    steps = [call("terminal/create", command="exec sleep 300"), WAIT]
    finished, _ = await room.run(*steps, offer=ALL, limits=Limits(silence=0.3))
    assert finished.stopped == Stop("hung_foreground", "Nothing came for 0.3 s while a tool was running.")
    steps = [call("terminal/create", command="yes"), WAIT]
    finished, _ = await room.run(*steps, offer=ALL, limits=Limits(output_bytes=100_000))
    assert finished.stopped is not None and finished.stopped.failure_class == "policy_violation"


async def test_an_agent_on_the_official_sdk_gets_all_that_is_offered(room: Room) -> None:
    agent = Path(acp_agent.__file__).with_name("acp_sdk_agent.py")
    launch, diary = room.launch(mode="bold"), Diary()
    launch = replace(launch, maid=replace(launch.maid, command_template=(sys.executable, str(agent))))
    finished = await AcpLauncher(offer=lambda _: ALL).run(launch, diary)
    expected = ["bold", "do it", "id-allow_once", "by butler\n", "0", "by butler\n", "-32602"]
    assert (finished.claim.split("|"), finished.stop_reason) == (expected, "end_turn")
    assert [request.command for request in diary.requests] == ["cat made.txt"]
    assert [use.status for use in diary.tools] == ["pending", "failed", "completed"]


async def test_in_the_sandbox_agent_and_terminals_are_wrapped_each_in_its_own_folder(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (room.tree / "sub").mkdir()
    launch = room.launch(call("terminal/create", command="pwd > said", cwd="sub"), WAIT)
    launch = replace(launch, maid=replace(launch.maid, sandbox="bubblewrap"))
    finished = await AcpLauncher(offer=lambda _: ALL).run(launch, Diary())
    assert finished.stopped is not None and "bwrap" in finished.stopped.detail
    stand_in = tmp_path / "bwrap"
    stand_in.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
    )
    stand_in.chmod(0o755)
    finished = await AcpLauncher(offer=lambda _: ALL, hidden=(room.temp,)).run(launch, Diary())
    assert finished.stop_reason == "end_turn"
    assert (room.tree / "sub/said").read_text() == f"{room.tree}/sub\n"
    agent, terminal = (tmp_path / "log").read_text().splitlines()
    assert f"--chdir {room.tree} --" in agent and f"--tmpfs {room.temp}" in agent
    assert f"--chdir {room.tree}/sub -- /bin/sh -c pwd" in terminal
