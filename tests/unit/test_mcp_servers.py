"""MCP servers that live, die, hang, flood and lie: real processes; each trouble costs one call or one server (E3)."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from butler.mcp.servers import McpServers
from butler.tools.built_in import benign_toolset, built_in
from butler.types import Invocation, ToolResult
from tests.support.mcp_links import bench, raw


async def until(probe: Any, seconds: float = 30.0) -> None:
    """Wait for what another process or task does."""
    async with asyncio.timeout(seconds):
        while not probe():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.01)


async def test_the_tools_of_two_servers_are_there_in_the_order_of_the_file(tmp_path: Path) -> None:
    async with bench(raw("good", "b"), raw("greets", "a"), data=tmp_path) as house:
        assert house.registry.names() == ("b__echo", "a__echo")
        assert (await house.call("a__echo", text="x"))["untrusted_result"] == "x"
        assert [(one.state, one.tools, one.server) for one in house.servers.standing()] == [
            ("connected", 1, "raw 1")
        ] * 2


async def test_a_server_gets_the_variables_that_its_entry_names_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_BUTLER", "x")
    async with bench(raw("good", env={"GIVEN": "1"}), data=tmp_path):
        [given] = [found for one in psutil.Process().children() if "GIVEN" in (found := _environment(one))]
        allowed = {"PATH", "HOME", "LANG", "GIVEN", "MCP_HOUSE", "MCP_LAUNCH", "LC_CTYPE"}
        assert set(given) <= allowed


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}  # another test's child, which ends just now


async def test_a_server_that_hangs_costs_its_call_and_answers_the_next(tmp_path: Path) -> None:
    async with bench(raw("hang-once", timeout=1.0), data=tmp_path) as house:
        hanging = asyncio.create_task(house.call("srv__echo", text="hang"))
        assert (await house.call("srv__echo", text="beside"))["untrusted_result"] == "beside"
        told = await hanging
        assert "No answer within 1 s" in told["error"] and "not repeated" in told["error"]
        assert (await house.call("srv__echo", text="after"))["untrusted_result"] == "after"


async def test_a_program_that_is_stuck_in_a_call_is_started_again_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("butler.mcp.link.PING_SECONDS", 0.3)
    log = tmp_path / "log"
    async with bench(raw("stuck", log=log, timeout=0.3), data=tmp_path) as house:
        assert "No answer within 0.3 s" in (await house.call("srv__echo", text="stuck"))["error"]
        assert (await house.call("srv__echo", text="next"))["untrusted_result"] == "next"
        assert log.read_text().splitlines() == ["called stuck", "called next"]


async def test_a_call_that_is_cancelled_ends_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(raw("hang", log=log, timeout=60.0), data=tmp_path) as house:
        hanging = asyncio.create_task(house.call("srv__echo", text="x"))
        await until(log.exists)
        hanging.cancel()
        began = time.monotonic()
        await asyncio.gather(hanging, return_exceptions=True)
        assert time.monotonic() - began < 2


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next_and_the_call_is_not_repeated(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with bench(raw("die", log=log), data=tmp_path) as house:
        told = await house.call("srv__echo", text="die")
        assert "ended before an answer" in told["error"] and "not repeated" in told["error"]
        assert (await house.call("srv__echo", text="next"))["untrusted_result"] == "next"
        assert log.read_text().split("\n") == ["called die", "called next", ""]


@pytest.mark.parametrize("code", [-32000, -32001, -32600, -32603, 1])
async def test_an_error_of_the_server_is_told_in_its_words_whatever_its_number(tmp_path: Path, code: int) -> None:
    async with bench(raw("errors"), data=tmp_path) as house:
        told = await house.call("srv__echo", text=str(code))
        assert told["error"] == "The call failed." and told["untrusted_error"] == f"no such user (code {code})"


async def test_an_answer_that_is_too_large_costs_its_call_alone(tmp_path: Path) -> None:
    async with bench(raw("huge"), data=tmp_path) as house:
        told = await house.call("srv__echo", text="huge")
        assert "over 4 MiB" in told["untrusted_error"]
        assert (await house.call("srv__echo", text="next"))["untrusted_result"] == "next"
        assert len([one for one in house.servers.standing() if one.state == "connected"]) == 1


async def test_arguments_that_are_no_unicode_are_not_sent_and_hurt_nobody(tmp_path: Path) -> None:
    async with bench(raw("good"), data=tmp_path) as house:
        beside = asyncio.create_task(house.call("srv__echo", text="beside"))
        assert "can't be sent" in (await house.call("srv__echo", text="\ud800"))["error"]
        assert (await beside)["untrusted_result"] == "beside"
        assert house.changes == 1


async def test_lines_that_are_no_messages_are_passed_over(tmp_path: Path) -> None:
    async with bench(raw("junk"), data=tmp_path) as house:
        assert (await house.call("srv__echo", text="junk"))["untrusted_result"] == "junk"


async def test_an_endless_stream_of_messages_ends_the_connection_and_butler_goes_on(tmp_path: Path) -> None:
    async with bench(raw("flood"), raw("good", "other"), data=tmp_path) as house:
        told = await house.call("srv__echo", text="flood")
        assert "ended before an answer" in told["error"]
        assert (await house.call("other__echo", text="x"))["untrusted_result"] == "x"
        assert (await house.call("srv__echo", text="again"))["untrusted_result"] == "again"


async def test_a_result_for_another_call_answers_none(tmp_path: Path) -> None:
    async with bench(raw("wrong-id", timeout=0.3), data=tmp_path) as house:
        assert "No answer" in (await house.call("srv__echo", text="x"))["error"]


async def test_structured_content_against_the_tools_own_schema_is_an_error(tmp_path: Path) -> None:
    async with bench(raw("structured"), data=tmp_path) as house:
        result = await house.result("srv__echo", text="x")
        assert result.is_error and "output schema" in json.loads(result.text)["error"]


async def test_what_a_server_asks_of_butler_is_declined_and_it_has_no_roots(tmp_path: Path) -> None:
    async with bench(raw("asks"), data=tmp_path) as house:
        told = (await house.call("srv__echo", text="x"))["untrusted_result"]
        assert told == 'q0:"error" q1:"error" q2:{"roots": []} q3:{}'


@pytest.mark.parametrize(
    ("mode", "tools", "told"),
    [("many", 128, "128 tools"), ("endless-pages", 50, "more than 50 pages"), ("same-page", 0, "without end")],
)
async def test_a_list_without_end_is_cut_and_told(tmp_path: Path, mode: str, tools: int, told: str) -> None:
    async with bench(raw(mode), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert standing.tools == tools
        assert told in standing.left_out[-1].why


async def test_tools_with_odd_names_and_broken_schemas_are_left_out_and_the_rest_serves(tmp_path: Path) -> None:
    async with bench(raw("odd"), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert [one.name for one in standing.left_out] == ["broken", "odd name", "?"]
        assert (await house.call("srv__echo", text="x"))["untrusted_result"] == "x"


@pytest.mark.parametrize(
    ("mode", "why", "words"),
    [
        ("paints", "it ended with exit status 3", "?[2Jall is ?well"),
        ("ends", "it ended with exit status 3", "no key was given"),
        ("newer", "it speaks only a version of MCP that Butler does not know yet", ""),
        ("no-list", "it answers tools/list with something else than tools", ""),
    ],
)
async def test_a_server_that_can_not_be_used_is_down_and_says_why(
    tmp_path: Path, mode: str, why: str, words: str
) -> None:
    async with bench(raw(mode), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert (standing.state, standing.why, standing.words) == ("down", why, words)
        # What a server says is never in what a model reads.
        assert house.registry.absence("srv__echo") == f"the MCP server 'srv' is not connected ({why})."


async def test_the_name_of_a_server_holds_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    async with bench(raw("paints-its-name"), data=tmp_path) as house:
        assert [one.server for one in house.servers.standing()] == ["ra?[2Jw 1"]


async def test_a_program_that_is_not_there_is_down_and_says_what_to_do(tmp_path: Path) -> None:
    async with bench(raw("good", command="no-such-program"), data=tmp_path) as house:
        [standing] = house.servers.standing()
        assert standing.why == "there is no program 'no-such-program'; install it, or correct 'command'"


async def test_a_server_that_never_answers_delays_a_turn_by_no_more_than_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("butler.mcp.servers.LOOK_SECONDS", 0.2)
    async with bench(raw("silent"), raw("good", "other"), data=tmp_path, settled=False) as house:
        began = time.monotonic()
        await house.registry.look()
        assert time.monotonic() - began < 1
        await house.registry.prepare("other__echo")
        assert house.registry.names() == ("other__echo",)
        assert "is starting" in str(house.registry.absence("srv__echo"))


async def test_a_server_that_announces_changes_without_end_is_asked_once_in_a_while(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(raw("restless", log=log), data=tmp_path) as house:
        await until(lambda: house.changes >= 2)
        assert len(log.read_text().splitlines()) < 5


async def test_of_two_tools_with_one_name_the_first_in_the_file_is_offered(tmp_path: Path) -> None:
    async def run(call: Invocation) -> ToolResult:
        return ToolResult("the house's own")

    own = benign_toolset(built_in("srv__echo", "Own", {}, [], run))
    async with bench(raw("good"), data=tmp_path, fixed=(own,)) as house:
        assert (await house.result("srv__echo")).text == "the house's own"
        [standing] = house.servers.standing()
        assert (standing.tools, [one.name for one in standing.left_out]) == (0, ["echo"])
        assert "from built-in" in standing.left_out[0].why


async def test_no_process_of_a_server_is_left_not_even_one_that_does_not_listen(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with bench(raw("stubborn", log=log), data=tmp_path):
        pids = [int(word) for word in log.read_text().split()[1:]]
        assert all(map(psutil.pid_exists, pids))
    await until(lambda: not any(map(_alive, pids)))


async def test_what_a_killed_butler_left_is_ended_by_the_next_and_that_of_another_house_is_not(tmp_path: Path) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    async with bench(raw("good", log=other), data=tmp_path / "neighbour") as neighbour:
        left = asyncio.create_task(_start_and_forget(raw("stubborn", log=log), tmp_path))
        await until(lambda: log.exists() and log.read_text().endswith("\n"))
        pids = [int(word) for word in log.read_text().split()[1:]]
        async with bench(raw("good"), data=tmp_path):
            await until(lambda: not any(map(_alive, pids)))
            assert (await neighbour.call("srv__echo", text="x"))["untrusted_result"] == "x"
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)


async def _start_and_forget(definition: Any, data: Path) -> None:
    async def nothing() -> None:
        """Nobody is interested."""

    servers = McpServers([definition], {"PATH": "/usr/bin:/bin"}, data)
    await servers.run(nothing)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
