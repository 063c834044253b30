"""Threads, runs, queues and transcripts against a simple model (http-api, *Chat* and *Threads*)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, select

from butler.errors import ButlerError
from butler.storage import conversations, deleted
from butler.storage.conversations import Entry, Lease, Run
from butler.storage.tables import messages, runs, threads
from tests.support.parts import ADMIN, MAX, MIA, add_people, new_database, quick_directory

LEASE = Lease("server", 1e9)
NUMBERS = st.integers(0, 63)
ENDS = st.sampled_from(["done", "failed", "cancelled"])


@dataclass
class ShadowRun:
    """What the model believes about one run."""

    run_id: str
    turn: int
    text: str
    status: str
    wanted_to_end: bool = False
    lines: list[str] = field(default_factory=list)


@dataclass
class ShadowThread:
    """What the model believes about one thread; its runs in the order of arrival."""

    thread_id: str
    runs: list[ShadowRun] = field(default_factory=list)

    def having(self, *statuses: str) -> list[ShadowRun]:
        return [run for run in self.runs if run.status in statuses]

    @property
    def active(self) -> ShadowRun | None:
        return next(iter(self.having("running", "parked")), None)

    @property
    def status(self) -> str:
        return self.active.status if self.active else "idle"


class ConversationMachine(RuleBasedStateMachine):
    """Every rule does one thing to the rows on disk and the same to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = quick_directory()
        self.database = new_database(Path(self.directory.name) / "butler.db")
        self.database.write_now(add_people)
        self.threads: list[ShadowThread] = []

    def teardown(self) -> None:
        self.database.close()
        self.directory.cleanup()

    @initialize()
    def open_two_threads(self) -> None:
        for person in (MIA, MAX):
            self.threads.append(
                ShadowThread(
                    self.database.write_now(
                        lambda connection, one=person: conversations.create_thread(connection, one, "hello")  # type: ignore[misc]
                    )
                )
            )

    def pick(self, number: int) -> ShadowThread:
        return self.threads[number % len(self.threads)]

    def pick_run(self, number: int) -> tuple[ShadowThread, ShadowRun] | None:
        thread = self.pick(number)
        return (thread, thread.runs[number // 2 % len(thread.runs)]) if thread.runs else None

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS, hold=st.sampled_from([False, False, False, True]))
    def accept(self, number: int, hold: bool) -> None:
        thread = self.pick(number)
        waits = hold or bool(thread.having("queued", "running", "parked"))
        text = f"message {len(thread.runs) + 1}"
        run = self.database.write_now(
            lambda connection: conversations.accept(connection, thread.thread_id, MIA, text, LEASE, hold=hold)
        )
        assert run.status == ("queued" if waits else "running")
        assert (run.lease_owner is None) == waits
        thread.runs.append(ShadowRun(run.run_id, run.turn, text, run.status, lines=[text]))

    @precondition(lambda self: any(thread.having("running") for thread in self.threads))
    @rule(number=NUMBERS, lines=st.integers(0, 3))
    def park(self, number: int, lines: int) -> None:
        thread = self.pick(number)
        if (run := thread.active) is not None:
            self._write_lines(run, lines)
            moved = self._move(run, ["running"], "parked")
            assert (moved is not None) == (run.status == "running")
            run.status = "parked"

    @precondition(lambda self: any(thread.having("parked") for thread in self.threads))
    @rule(number=NUMBERS)
    def wake(self, number: int) -> None:
        thread = self.pick(number)
        if (run := thread.active) is not None:
            moved = self._move(run, ["parked"], "running")
            assert (moved is not None) == (run.status == "parked")
            run.status = "running"

    @precondition(lambda self: any(thread.having("running") for thread in self.threads))
    @rule(number=NUMBERS, end=ENDS, lines=st.integers(0, 3), goes_on=st.sampled_from([True, True, True, False]))
    def finish(self, number: int, end: str, lines: int, goes_on: bool) -> None:
        """A run ends, and the next begins in the same commit unless the server is about to stop."""
        thread = self.pick(number)
        run = thread.active
        if run is None or run.status != "running":
            return
        self._write_lines(run, lines)

        def write(connection: Connection) -> Run | None:
            assert conversations.move_run(connection, run.run_id, ["running"], end) is not None  # type: ignore[arg-type]
            return conversations.start_next(connection, thread.thread_id, LEASE) if goes_on else None

        following = self.database.write_now(write)
        run.status = end
        self._expect_start(thread, following, goes_on)

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS)
    def start_next(self, number: int) -> None:
        thread = self.pick(number)
        following = self.database.write_now(lambda c: conversations.start_next(c, thread.thread_id, LEASE))
        self._expect_start(thread, following, thread.active is None)

    def _expect_start(self, thread: ShadowThread, following: Run | None, may: bool) -> None:
        queued = thread.having("queued")
        if may and queued:
            assert following is not None and following.run_id == queued[0].run_id
            assert (following.status, following.lease_owner) == ("running", "server")
            queued[0].status = "running"
        else:
            assert following is None

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS)
    def ask_to_cancel(self, number: int) -> None:
        if (found := self.pick_run(number)) is None:
            return
        _, run = found

        def write(connection: Connection) -> Run:
            stored = conversations.get_run(connection, run.run_id)
            assert stored is not None
            return conversations.ask_to_cancel(connection, stored)

        answer = self.database.write_now(write)
        if run.status == "queued":
            run.status = "cancelled"
        elif run.status in ("running", "parked"):
            run.wanted_to_end = True
        assert answer.status == run.status

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS, status=st.sampled_from(["queued", "parked", "done"]))
    def move_from_the_wrong_status(self, number: int, status: str) -> None:
        found = self.pick_run(number)
        if found is not None and found[1].status not in ("running", status):
            assert self._move(found[1], ["running"], "done") is None

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS, lines=st.integers(1, 3))
    def write_lines_again(self, number: int, lines: int) -> None:
        """Lines that were written before a crash are written again after it."""
        if (found := self.pick_run(number)) is not None:
            self._write_lines(found[1], lines)

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS)
    def answer_a_command(self, number: int) -> None:
        """A command takes a turn of its own beside whatever runs."""
        thread = self.pick(number)

        def write(connection: Connection) -> int:
            return conversations.next_turn(connection, thread.thread_id)

        turn = self.database.write_now(write)
        assert all(run.turn < turn for run in thread.runs)

    @precondition(lambda self: len(self.threads) > 1)
    @rule(number=NUMBERS, sure=st.integers(0, 9))
    def delete(self, number: int, sure: int) -> None:
        if sure == 9:
            thread = self.pick(number)
            self.database.write_now(partial(deleted.delete_thread, thread_id=thread.thread_id))
            self.threads.remove(thread)
            with pytest.raises(ButlerError):
                self.database.write_now(lambda c: conversations.owned_thread(c, thread.thread_id, ADMIN))

    def _move(self, run: ShadowRun, old: list[str], new: str) -> Run | None:
        return self.database.write_now(
            lambda connection: conversations.move_run(connection, run.run_id, old, new)  # type: ignore[arg-type]
        )

    def _write_lines(self, run: ShadowRun, count: int) -> None:
        """The first lines of the turn so far, those that are there already among them."""
        said = [f"{run.text}, line {number}" for number in range(count)]
        entries = [Entry(f"{run.run_id}:{number}", "assistant", text) for number, text in enumerate(said)]

        def write(connection: Connection) -> None:
            stored = conversations.get_run(connection, run.run_id)
            assert stored is not None
            conversations.write_entries(connection, stored, entries)

        self.database.write_now(write)
        run.lines += [text for text in said if text not in run.lines]

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        def read(connection: Connection) -> None:
            assert set(connection.execute(select(messages.c.thread_id)).scalars()) <= {
                thread.thread_id for thread in self.threads
            }
            stored = {row.thread_id: row for row in connection.execute(select(threads))}
            assert set(stored) == {thread.thread_id for thread in self.threads}
            known = {row.run_id: row for row in map(Run.of_row, connection.execute(select(runs)))}
            assert set(known) == {run.run_id for thread in self.threads for run in thread.runs}
            for thread in self.threads:
                assert stored[thread.thread_id].status == thread.status
                assert len(thread.having("running", "parked")) <= 1
                for run in thread.runs:
                    row = known[run.run_id]
                    assert (row.status, row.cancel_requested) == (run.status, run.wanted_to_end)
                active = conversations.active_run(connection, thread.thread_id)
                assert (active.run_id if active else None) == (thread.active.run_id if thread.active else None)
                open_runs = {run.run_id for run in thread.having("queued", "running", "parked")}
                assert set(conversations.run_ids(connection, thread.thread_id)) == open_runs
                lines = [line for run in thread.runs for line in run.lines]
                assert [row.text for row in conversations.transcript(connection, thread.thread_id, 999, None)] == lines
            running, waiting = conversations.unfinished(connection)
            assert {run.run_id for run in running} == {
                run.run_id for thread in self.threads for run in thread.having("running")
            }
            assert set(waiting) == {t.thread_id for t in self.threads if t.having("queued") and not t.active}

        self.database.write_now(read)

    @precondition(lambda self: self.threads)
    @rule(number=NUMBERS, limit=st.integers(1, 4))
    def page_through_the_transcript(self, number: int, limit: int) -> None:
        thread = self.pick(number)

        def read(connection: Connection) -> list[str]:
            found: list[str] = []
            before: str | None = None
            while page := conversations.transcript(connection, thread.thread_id, limit, before):
                assert len(page) <= limit
                found = [row.text for row in page] + found
                before = page[0].message_id
            return found

        assert self.database.write_now(read) == [line for run in thread.runs for line in run.lines]


TestConversations = ConversationMachine.TestCase
TestConversations.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
