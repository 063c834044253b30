"""Tasks and attempts in the database: counted before launch, settled once, never more than allowed (D7)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.errors import ButlerError
from butler.maids import store
from butler.maids.contract import FailureClass
from butler.maids.failures import kind_of
from butler.maids.progress import MOST_ROWS_MORE, Bounds, next_step
from butler.maids.store import Attempt, MaidRun, NewMaidRun
from butler.storage.database import Database
from tests.support.parts import ADMIN, MIA, add_run, new_database, quick_directory

TASK = NewMaidRun("work", "do it", "/project", ("carefully",))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = new_database(tmp_path / "butler.db")
    made.write_now(lambda connection: add_run(connection, "run", "thread"))
    yield made
    made.close()


def begun(database: Database, *, action_id: str = "a", run_id: str = "run") -> MaidRun:
    return database.write_now(
        lambda connection: store.of_call(
            connection, TASK, ADMIN, thread_id="thread", run_id=run_id, action_id=action_id, call_id=f"call-{action_id}"
        )
    )


def attempt(database: Database, run: MaidRun) -> Attempt | None:
    return database.write_now(lambda connection: store.begin_attempt(connection, run.maid_run_id))


def test_a_call_has_one_task_however_often_it_is_opened(database: Database) -> None:
    assert begun(database) == begun(database)
    assert begun(database, action_id="b").maid_run_id != begun(database).maid_run_id


def test_a_task_begun_with_its_run_is_taken_up_by_the_call(database: Database) -> None:
    made = database.write_now(lambda connection: store.add(connection, TASK, ADMIN, thread_id="thread", run_id="run"))
    taken = begun(database)
    assert taken.maid_run_id == made.maid_run_id and taken.call_id == "call-a"


def test_a_person_has_no_more_unfinished_tasks_than_may_be_and_an_end_makes_room(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_UNFINISHED", 2)
    first, _ = begun(database), begun(database, action_id="b")
    with pytest.raises(ButlerError) as caught:
        begun(database, action_id="c")
    assert (caught.value.code, caught.value.status) == ("rate_limited", 429)
    assert begun(database) == first  # what was begun goes on
    database.write_now(
        lambda connection: store.add(connection, TASK, MIA, thread_id="thread", run_id="run")
    )  # somebody else's count is their own
    database.write_now(lambda connection: store.finish(connection, first.maid_run_id, "failed", "no"))
    assert begun(database, action_id="c").status == "running"


def test_only_one_attempt_is_under_way_and_each_has_its_number(database: Database) -> None:
    run = begun(database)
    first = attempt(database, run)
    assert first is not None and first.number == 1 and attempt(database, run) is None
    settled = database.write_now(
        lambda connection: store.settle_attempt(connection, first.attempt_id, "failed", failure_class="timeout")
    )
    assert settled is not None and settled.finished_at is not None
    again = database.write_now(lambda connection: store.settle_attempt(connection, first.attempt_id, "passed"))
    assert again is None  # what was settled stays
    second = attempt(database, run)
    assert second is not None and second.number == 2


def test_a_dead_process_interrupts_what_ran_and_keeps_its_tree_as_evidence(database: Database) -> None:
    run = begun(database)
    database.write_now(lambda connection: store.change(connection, run.maid_run_id, workspace={"number": 1}))
    running = attempt(database, run)
    assert running is not None

    def crash(connection: object) -> list[Attempt]:
        ended = store.interrupt_attempts(connection)  # type: ignore[arg-type]
        for one in ended:
            store.set_aside(connection, one)  # type: ignore[arg-type]
        return ended

    assert [one.status for one in database.write_now(crash)] == ["interrupted"]
    [kept] = database.write_now(lambda connection: store.attempts_of(connection, run.maid_run_id))
    assert kept.spends and kept.evidence["workspace"] == {"number": 1}
    task = database.write_now(lambda connection: store.get(connection, run.maid_run_id))
    assert task is not None and task.workspace is None


def test_an_attempt_whose_maid_had_ended_is_only_verified_after_a_crash(database: Database) -> None:
    run = begun(database)
    one = attempt(database, run)
    assert one is not None
    database.write_now(lambda connection: store.attempt_ended(connection, one.attempt_id, {"observation": {}}))
    assert database.write_now(store.interrupt_attempts) == []


def test_a_note_that_comes_late_replaces_nothing_of_what_ended(database: Database) -> None:
    run = begun(database)
    one = attempt(database, run)
    assert one is not None
    note = partial(store.note_evidence, attempt_id=one.attempt_id, evidence={"half": 1})
    assert database.write_now(note) is not None
    database.write_now(lambda connection: store.attempt_ended(connection, one.attempt_id, {"observation": {}}))
    assert database.write_now(note) is None
    [kept] = database.write_now(lambda connection: store.attempts_of(connection, run.maid_run_id))
    assert kept.evidence == {"observation": {}}


def test_a_task_has_one_outcome(database: Database) -> None:
    run = begun(database)
    ended = database.write_now(lambda connection: store.finish(connection, run.maid_run_id, "succeeded", ""))
    assert ended is not None and ended.is_over
    later = database.write_now(lambda connection: store.finish(connection, run.maid_run_id, "failed", "late"))
    assert later is None and attempt(database, run) is None


def test_what_a_run_leaves_open_ends_with_it(database: Database) -> None:
    run = begun(database)
    attempt(database, run)
    [closed] = database.write_now(lambda connection: store.close_of_run(connection, "run", "cancelled", "by a person"))
    assert closed.status == "cancelled"
    [one] = database.write_now(lambda connection: store.attempts_of(connection, run.maid_run_id))
    assert (one.status, one.failure_class) == ("cancelled", "cancelled")


def test_lists_are_of_ones_own_newest_first(database: Database) -> None:
    tasks = [begun(database, action_id=name) for name in "abc"]
    listed = database.write_now(lambda connection: store.listed(connection, ADMIN, 2, None))
    assert [one.maid_run_id for one in listed] == [tasks[2].maid_run_id, tasks[1].maid_run_id]
    place = listed[-1].created_at, listed[-1].maid_run_id
    rest = database.write_now(lambda connection: store.listed(connection, ADMIN, 2, place))
    assert [one.maid_run_id for one in rest] == [tasks[0].maid_run_id]
    assert database.write_now(lambda connection: store.listed(connection, MIA, 9, None)) == []


ENDS = st.sampled_from(
    ["passed", "unverified", "crash", "permission", "wrong_output", "no_changes", "provider_error", "launch_error"]
)
REVIEWS = st.sampled_from(["approve", "reject", "feedback"])


@settings(max_examples=60, deadline=None)
@given(ends=st.lists(ENDS, min_size=40, max_size=40), reviews=st.lists(REVIEWS, min_size=40, max_size=40),
       most=st.integers(1, 4))  # fmt: skip
def test_whatever_happens_a_task_ends_and_never_spends_more_than_it_may(
    ends: list[str], reviews: list[str], most: int
) -> None:
    bounds = Bounds(most, lambda kind: kind_of(kind).retryable)
    with quick_directory() as folder:
        database = new_database(Path(folder) / "butler.db")
        try:
            database.write_now(lambda connection: add_run(connection, "run", "thread"))
            _drive(database, ends, reviews, bounds)
        finally:
            database.close()


def _drive(database: Database, ends: list[str], reviews: list[str], bounds: Bounds) -> None:
    """Walk a task by `next_step` alone, with ends and verdicts as they are drawn."""
    task_id = begun(database).maid_run_id
    database.write_now(lambda connection: store.change(connection, task_id, maid_id="m", workspace={"number": 0}))
    feedback = 0
    for turn in range(200):
        run = database.write_now(lambda connection: store.get(connection, task_id))
        attempts = database.write_now(lambda connection: store.attempts_of(connection, task_id))
        assert run is not None
        assert [one.number for one in attempts] == list(range(1, len(attempts) + 1))
        assert sum(one.spends for one in attempts) <= bounds.max_attempts + run.extra_attempts
        assert len(attempts) <= bounds.max_attempts + run.extra_attempts + MOST_ROWS_MORE
        step = next_step(run, attempts, bounds).step
        if step == "report":
            assert run.is_over or attempts[-1].status in ("failed", "interrupted", "cancelled")
            return
        if step == "prepare":
            database.write_now(partial(store.change, maid_run_id=task_id, workspace={"number": turn}))
        elif step in ("attempt", "permission"):
            _attempt(database, run, ends.pop() if ends else "passed", turn)
        else:
            assert step == "review" and attempts[-1].status in ("passed", "unverified")
            verdict = reviews.pop() if reviews and feedback < 5 else "approve"
            if verdict == "feedback":
                feedback += 1
                spent = sum(one.spends for one in attempts)
                more = max(run.extra_attempts, spent + 1 - bounds.max_attempts)
                database.write_now(partial(store.next_review, run=run, feedback="more", extra_attempts=more))
            elif verdict == "approve":
                database.write_now(partial(store.finish, maid_run_id=task_id, status="succeeded", reason=""))
            else:
                database.write_now(partial(store.finish, maid_run_id=task_id, status="failed", reason="rejected"))
    raise AssertionError("it came to no end")


def _attempt(database: Database, run: MaidRun, end: str, turn: int) -> None:
    one = database.write_now(lambda connection: store.begin_attempt(connection, run.maid_run_id))
    assert one is not None
    if end == "crash":
        for ended in database.write_now(store.interrupt_attempts):
            database.write_now(partial(store.set_aside, attempt=ended))
    elif end == "permission":
        database.write_now(
            lambda c: store.settle_attempt(c, one.attempt_id, "cancelled", failure_class="cancelled", spends=False)
        )
    elif end in ("passed", "unverified"):
        database.write_now(lambda connection: store.settle_attempt(connection, one.attempt_id, end))  # type: ignore[arg-type]
    else:
        kind: FailureClass = end  # type: ignore[assignment]
        evidence = {"failure": {"fingerprint": f"{end} {turn}"}}
        database.write_now(
            lambda c: store.settle_attempt(
                c, one.attempt_id, "failed", evidence=evidence, failure_class=kind, spends=kind_of(kind).spends
            )
        )
