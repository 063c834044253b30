"""Output that repeats itself line by line is a loop; progress, dots and work that goes on are none (D7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.maids.contract import Output, Stop
from butler.maids.detect import Detector
from butler.maids.echoes import DENSE, KEPT_REST, LONGEST_CYCLE, Echoes, state_of_tree


class Tree:
    """What the tree is like; changes when told."""

    def __init__(self) -> None:
        self.changes = 0
        self.looks = 0

    def __call__(self) -> str:
        self.looks += 1
        return str(self.changes)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def printed(lines: list[str], seconds: float = 0.1, tree: Tree | None = None, works: bool = False) -> str | None:
    """What is found when a line comes every so many seconds."""
    clock, tree = Hand(), tree or Tree()
    echoes = Echoes(200, tree, clock)
    for line in lines:
        clock.now += seconds
        tree.changes += works
        if (found := echoes.add(f"{line}\n")) is not None:
            return found
    return None


@pytest.mark.parametrize("cycle", [["still at it"], ["one", "two"], [f"step {n}" for n in range(LONGEST_CYCLE)]])
def test_a_few_lines_without_end_are_a_loop(cycle: list[str]) -> None:
    found = printed(cycle * 600)
    assert found is not None and cycle[0] in found and "times in a row" in found


@pytest.mark.parametrize(
    "lines",
    [
        ["."] * 2_000, ["====", "----"] * 1_000, [""] * 2_000, [f"{n} %" for n in range(2_000)],
        [f"[{'#' * (n // 20)}] {n}" for n in range(2_000)], ["again"] * 199 + ["done"],
        [f"test {n % (LONGEST_CYCLE + 1)} passed" for n in range(2_000)], (["ok"] * 150 + ["next file"]) * 10,
    ],
)  # fmt: skip
def test_progress_and_a_few_equal_lines_are_none(lines: list[str]) -> None:
    assert printed(lines) is None


def test_many_equal_lines_at_once_are_none_and_neither_are_those_of_work_that_changes_files() -> None:
    assert printed(["compiling"] * 5_000, seconds=0.0) is None
    busy = Tree()
    assert printed(["compiling"] * 2_000, tree=busy, works=True) is None
    assert busy.looks < 50, "the tree is looked at every few seconds only"


def test_a_suite_whose_tests_all_warn_of_the_same_is_none() -> None:
    # pytest -s: each of 700 tests writes its warning and a dot, for 28 seconds.
    warning = "WARNING:root:the connection is not encrypted"
    assert printed([warning, "."] * 700 + ["700 passed in 28.00s"], seconds=0.02) is None
    hurried = printed(["waiting for the server"] * 3_000, seconds=0.003)
    assert hurried is not None, "what repeats much faster needs seconds only"


def test_what_prints_a_megabyte_of_one_line_needs_no_time() -> None:
    echoes = Echoes(200, Tree(), Hand())
    chunks = (echoes.add("the very same line of text\n" * 5_000) for _ in range(20))
    assert "the very same" in next(found for found in chunks if found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["aaa", "bbb", "...", "ccc"]), max_size=60), st.data())
def test_it_is_the_same_however_the_text_is_cut(lines: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\n" for line in lines)
    whole, cut = Echoes(5, Tree(), Hand()), Echoes(5, Tree(), Hand())
    whole.add(text)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    for begin, end in zip([0, *places], [*places, len(text)], strict=True):
        cut.add(text[begin:end])
    assert (whole._equal, list(whole._last)) == (cut._equal, list(cut._last))


def test_many_lines_at_once_count_as_one_by_one() -> None:
    at_once, one_by_one = Echoes(10**9, Tree(), Hand()), Echoes(10**9, Tree(), Hand())
    for lines in (["x1x", "y1y"] * DENSE, ["another"] * (DENSE + 7), [f"line {n}" for n in range(2 * DENSE)]):
        at_once.add("".join(f"{line}\n" for line in lines))
        for line in lines:
            one_by_one.add(f"{line}\n")
        assert at_once._equal == one_by_one._equal


def test_a_line_without_an_end_takes_no_room() -> None:
    echoes = Echoes(200, Tree(), Hand())
    for _ in range(50):
        echoes.add("x" * 100_000)
    assert len(echoes._rest) <= KEPT_REST


def test_the_state_of_a_tree_is_another_one_after_every_change(tmp_path: Path) -> None:
    states = {state_of_tree(tmp_path)}
    (tmp_path / "a").mkdir()
    states.add(state_of_tree(tmp_path))
    (tmp_path / "a" / "b").write_text("1")
    states.add(state_of_tree(tmp_path))
    (tmp_path / "a" / "b").write_text("12")
    states.add(state_of_tree(tmp_path))
    assert len(states) == 4 and state_of_tree(tmp_path) in states
    assert state_of_tree(tmp_path / "none") == state_of_tree(tmp_path / "nowhere")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_detector_of_an_attempt_ends_such_a_maid_by_its_limit(tmp_path: Path, stream: str) -> None:
    clock = Hand()
    watch = Detector(tmp_path, equal_lines=20, clock=clock)
    stop: Stop | None = None
    for _ in range(100):
        clock.now += 0.5
        stop = stop or watch.event(Output(stream, "still at it\n"))  # type: ignore[arg-type]
    assert stop is not None and stop.failure_class == "loop_detected" and "'still at it'" in stop.detail
