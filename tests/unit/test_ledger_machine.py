"""The ledger against a simple model under every order of events that hypothesis can think of (A5 to A9, B6)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, select

from butler.approvals import deadlines, ledger
from butler.approvals.actions import Action, DecisionKind
from butler.approvals.decide import Decision, decide
from butler.approvals.ledger import Objection
from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import CODE_LETTERS
from butler.people import Principal
from butler.storage import tables
from butler.types import Ruling, ToolResult, Verdict
from tests.support.clockwork import MovingClock
from tests.support.ledger_model import Shadow, State
from tests.support.parts import (
    ADMIN,
    BOT,
    MAX,
    MIA,
    add_run,
    judge,
    new_database,
    proposal,
    quick_directory,
    registry,
    ruling,
    set_run,
    tool,
)

EVENT_OF: dict[DecisionKind, str] = {
    "approve": "approved", "edit": "edited", "reject": "changes_requested", "respond": "responded"
}  # fmt: skip


PERSONS = st.sampled_from([ADMIN, ADMIN, ADMIN, MIA, MAX, BOT])
REQUESTERS = st.sampled_from([ADMIN, MIA, MAX])
PICKS = st.integers(0, 255)
VERDICTS: tuple[Verdict, ...] = ("allow", "allow", "approve", "approve", "approve", "refuse")
RULINGS = st.builds(
    lambda given, needed, escalation: replace(
        given, approvals_needed=needed, escalate_after=escalation[0], escalate_to=escalation[1]
    ),
    st.builds(
        ruling,
        st.sampled_from(VERDICTS),
        deciders=st.sampled_from([None, ("admin",), ("mia",), ("member",), ("requester",), ("mia", "ada")]),
        expires_in=st.sampled_from([None, None, None, 10.0, 60.0]),
    ),
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from([(None, ()), (None, ()), (5.0, ("admin",)), (5.0, ("max", "requester"))]),
)
DECISIONS: dict[DecisionKind, dict[str, Any]] = {
    "approve": {}, "edit": {"args": {"text": "edited"}}, "reject": {"reason": "no"}, "respond": {"response": "told"},
}  # fmt: skip


NEVER_LICENSED = {"requested", "approved_in_part", "escalated", "rejected", "changes_requested", "expired", "cancelled"}
STRICTER = ruling("approve", name="stricter")


class LedgerMachine(RuleBasedStateMachine):
    """Every rule does one thing to the ledger on disk and the same to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = quick_directory()
        self.database = new_database(Path(self.directory.name) / "butler.db")
        self.clock = MovingClock()
        self.clock.__enter__()
        self.judge = judge(registry(tool("act")), default="allow")
        self.shadows: list[Shadow] = []
        self.rows: dict[str, Action] = {}
        self.parked: set[str] = set()

    def teardown(self) -> None:
        self.clock.__exit__()
        self.database.close()
        self.directory.cleanup()

    def pick(self, number: int, *useful: State) -> Shadow:
        """An action to do something with: mostly one in a `useful` state, sometimes any."""
        pool = [shadow for shadow in self.shadows if shadow.state in useful]
        if number % 4 == 0 or not pool:
            pool = self.shadows
        return pool[number // 4 % len(pool)]

    @initialize(rulings=st.lists(RULINGS, min_size=1, max_size=3), person=REQUESTERS)
    def begin_with_some(self, rulings: list[Ruling], person: Principal) -> None:
        self._propose(rulings, person)

    @precondition(lambda self: sum(shadow.state != "over" for shadow in self.shadows) < 4)
    @rule(rulings=st.lists(RULINGS, min_size=1, max_size=3), person=REQUESTERS)
    def propose(self, rulings: list[Ruling], person: Principal) -> None:
        self._propose(rulings, person)

    @rule(number=PICKS)
    def go_on(self, number: int) -> None:
        """Do with an action what comes next when all goes well."""
        shadow = self.pick(number | 1, "ready", "asking", "going")
        if shadow.state == "ready":
            self._begin(shadow, "fine")
        elif shadow.state == "going":
            self._finish(shadow, 0, False)
        elif shadow.state == "asking":
            self._decide(shadow, ADMIN, "approve", "right")
            if shadow.state == "asking":
                self._decide(shadow, MIA, "approve", "right")

    def _propose(self, rulings: list[Ruling], person: Principal) -> None:
        run_id = f"run-{len(self.shadows)}"
        calls = [proposal(f"call-{index}", index, text=f"{run_id}/{index}") for index in range(len(rulings))]

        def write(connection: Connection) -> list[Action]:
            add_run(connection, run_id)
            return ledger.propose(
                connection, calls, run_id=run_id, thread_id="thread", person=person,
                rule=lambda _, call: rulings[call.position], guarded=True,
            )  # fmt: skip

        before = self.clock.moment
        rows = self.database.write_now(write)
        made = []
        for row, given in zip(rows, rulings, strict=True):
            shadow = Shadow(row.action_id, run_id, person, row.fingerprint, given.deciders, None)
            if given.verdict == "approve":
                shadow.ask(given, before)
            shadow.happen({"allow": "allowed", "approve": "requested", "refuse": "refused"}[given.verdict])
            made.append(shadow)
        self.shadows += made
        # A crash after the commit proposes the same calls again: the same rows, and nothing new.
        assert [row.action_id for row in self.database.write_now(write)] == [row.action_id for row in rows]

    @rule(number=PICKS, check=st.sampled_from(["fine", "fine", "fine", "ask", "changed", "refuse"]))
    def begin(self, number: int, check: str) -> None:
        self._begin(self.pick(number, "ready"), check)

    def _begin(self, shadow: Shadow, check: str) -> None:
        objection = {
            "fine": None, "ask": Objection("policy asks now", STRICTER),
            "changed": Objection("another definition", STRICTER, "another digest"),
            "refuse": Objection("policy refuses now", ruling("refuse")),
        }[check]  # fmt: skip

        def write(connection: Connection) -> ledger.Claim:
            return ledger.begin(connection, shadow.action_id, lambda *_: objection, guarded=True)

        if shadow.state == "ready" and shadow.run_id in self.parked:
            with pytest.raises(LookupError):  # nothing starts in a run that nobody drives
                self.database.write_now(write)
            return
        before = self.clock.moment
        claim = self.database.write_now(write)
        assert claim.won == (shadow.state == "ready" and check == "fine")
        if shadow.state == "ready":
            if check == "fine":
                shadow.happen("started")
            elif check in ("ask", "changed"):
                self._asked_again(shadow, before)
            else:
                shadow.hold()
        assert (claim.action.attempts, claim.action.execution) == (shadow.attempts, shadow.execution)

    def _asked_again(self, shadow: Shadow, moment: datetime) -> None:
        shadow.happen("requested")
        shadow.ask(STRICTER, moment)
        shadow.decided = False
        # What was started once may have taken effect.
        shadow.execution = "unknown" if shadow.attempts else "none"

    @rule(number=PICKS, behind=st.sampled_from([0, 0, 1]), is_error=st.booleans())
    def finish(self, number: int, behind: int, is_error: bool) -> None:
        self._finish(self.pick(number, "going"), behind, is_error)

    def _finish(self, shadow: Shadow, behind: int, is_error: bool) -> None:
        result = ToolResult(f"result {shadow.attempts}", is_error)
        attempt = shadow.attempts - behind
        row = self.database.write_now(lambda connection: ledger.finish(connection, shadow.action_id, attempt, result))
        owns = shadow.state == "going" and not behind
        assert (row is not None) == owns
        if owns:
            shadow.happen("failed" if is_error else "done")
            assert row is not None and row.result == result.text and row.result_is_error == is_error

    @rule(
        number=PICKS, person=PERSONS, kind=st.sampled_from(["approve", "approve", "edit", "edit", "reject", "respond"]),
        shown=st.sampled_from(["right", "right", "none", "wrong"]),
    )  # fmt: skip
    def decide(self, number: int, person: Principal, kind: DecisionKind, shown: str) -> None:
        self._decide(self.pick(number, "asking"), person, kind, shown)

    def _decide(self, shadow: Shadow, person: Principal, kind: DecisionKind, shown: str) -> None:
        seen = {"none": None, "right": shadow.shown, "wrong": "0" * 64}[shown]
        decision = Decision(kind, fingerprint=seen, **DECISIONS[kind])
        expected = self._refusal(shadow, person, kind, shown)
        earlier = self.rows[shadow.action_id]

        def write(connection: Connection) -> Action:
            return decide(connection, shadow.action_id, decision, person, via="test", judge=self.judge)

        if expected is None:
            if shadow.is_due_to_escalate(self.clock.moment):
                shadow.happen("escalated")
                shadow.escalated = True
            row = self.database.write_now(write)
            self._has_decided(shadow, person, kind, row)
        else:
            with pytest.raises(ButlerError) as refused:
                self.database.write_now(write)
            assert refused.value.code == expected
            if expected == "already_decided" and shadow.decided and shadow.status in ("approved", "rejected"):
                assert refused.value.extras["decision"] == earlier.decision
            elif expected == "already_decided" and shadow.status == "pending":
                assert refused.value.extras["decision"]["by"] == person.name

    def _has_decided(self, shadow: Shadow, person: Principal, kind: DecisionKind, row: Action) -> None:
        if kind == "approve":
            shadow.given.append(person.name)
            if len(shadow.given) < shadow.needed:
                shadow.happen("approved_in_part")
                return
        event = EVENT_OF[kind]
        shadow.happen("rejected" if event == "changes_requested" and shadow.execution == "unknown" else event)
        shadow.decided = True
        shadow.edited |= kind == "edit"
        assert row.decision is not None
        assert (row.decision["decision"], row.decision["by"]) == (kind, person.name)

    def _refusal(self, shadow: Shadow, person: Principal, kind: DecisionKind, shown: str) -> str | None:
        if shadow.status in ("allowed", "refused"):
            return "not_found"
        if not shadow.may_be_decided_by(person, self.clock.moment):
            return "not_an_approver"
        if shadow.status != "pending":
            return "expired" if shadow.status == "expired" else "already_decided"
        if shadow.expires is not None and shadow.expires <= self.clock.moment:
            return "expired"
        if shown == "wrong":
            return "stale_decision"
        if not shadow.allows(kind):
            return "invalid_request"
        return "already_decided" if kind == "approve" and person.name in shadow.given else None

    @rule(seconds=st.sampled_from([1.0, 4.0, 50.0]), look=st.booleans())
    def let_time_pass(self, seconds: float, look: bool) -> None:
        self.clock.move(seconds)
        if look:
            expired = self.database.write_now(lambda connection: deadlines.expire_due(connection, stamp()))
            due = {
                shadow.action_id
                for shadow in self.shadows
                if shadow.status == "pending" and shadow.expires is not None and shadow.expires <= self.clock.moment
            }
            assert {row.action_id for row in expired} == due
            for shadow in self.shadows:
                if shadow.action_id in due:
                    shadow.happen("expired")
            self._look_at_escalations()

    def _look_at_escalations(self) -> None:
        escalated = self.database.write_now(lambda connection: deadlines.escalate_due(connection, stamp()))
        due = [shadow for shadow in self.shadows if shadow.is_due_to_escalate(self.clock.moment)]
        assert {row.action_id for row in escalated} == {shadow.action_id for shadow in due}
        for shadow in due:
            shadow.happen("escalated")
            shadow.escalated = True

    @precondition(lambda self: any(shadow.state == "going" for shadow in self.shadows))
    @rule(idempotent=st.booleans())
    def crash(self, idempotent: bool) -> None:
        """The process dies; the next one settles everything that was under way."""

        def recover(connection: Connection) -> None:
            for run_id in {shadow.run_id for shadow in self.shadows}:
                for row in ledger.interrupted_executions(connection, run_id):
                    ledger.after_crash(connection, row, idempotent=idempotent)

        self.database.write_now(recover)
        for shadow in self.shadows:
            if shadow.state == "going":
                shadow.happen("repeated" if idempotent else "unknown")
                shadow.expires = shadow.expires if idempotent else None
                shadow.given = shadow.given if idempotent else []

    @rule(number=PICKS)
    def park_or_wake(self, number: int) -> None:
        shadow = self.pick(number, "ready", "asking")
        self.parked ^= {shadow.run_id}
        status = "parked" if shadow.run_id in self.parked else "running"
        self.database.write_now(lambda connection: set_run(connection, shadow.run_id, status))

    @rule(number=PICKS, sure=st.integers(0, 9))
    def cancel(self, number: int, sure: int) -> None:
        if sure < 9:
            return  # it would end too many lives too early
        shadow = self.pick(number, "ready", "asking", "going")
        ended = self.database.write_now(
            lambda connection: ledger.cancel_open(connection, shadow.run_id, actor="ada", via="test", why="enough")
        )
        opened = [one for one in self.shadows if one.run_id == shadow.run_id and one.state != "over"]
        assert {row.action_id for row in ended} == {one.action_id for one in opened}
        for one in opened:
            if one.execution == "started":
                one.execution = "unknown"
            one.happen("cancelled")

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        def read(connection: Connection) -> tuple[dict[str, Action], dict[str, list[str]]]:
            rows = map(Action.of_row, connection.execute(select(tables.actions)))
            events: dict[str, list[str]] = {}
            for action_id, event in connection.execute(
                select(tables.audit.c.action_id, tables.audit.c.event).order_by(tables.audit.c.seq)
            ):
                events.setdefault(action_id, []).append(event)
            return {row.action_id: row for row in rows}, events

        self.rows, events = self.database.write_now(read)
        assert set(self.rows) == set(events) == {shadow.action_id for shadow in self.shadows}
        for shadow in self.shadows:
            row = self.rows[shadow.action_id]
            assert (row.status, row.execution, row.attempts) == (shadow.status, shadow.execution, shadow.attempts)
            assert events[shadow.action_id] == shadow.events  # one audit row for every transition, and no other
            assert (row.decision is not None) == shadow.decided
            assert (row.run_args is not None) == shadow.edited
            assert [one["by"] for one in row.approved_by or ()] == (shadow.given if shadow.needed > 1 else [])
            assert (row.escalated_at is not None) == shadow.escalated
            # Whatever is over has the one result that the model gets; what is open has none.
            assert (row.result is not None) == (shadow.state == "over")

        self.what_waits_has_a_code_of_its_own_and_nothing_else_has_one()
        self.nothing_runs_more_often_than_it_was_licensed()

    def what_waits_has_a_code_of_its_own_and_nothing_else_has_one(self) -> None:
        codes = [row.code for row in self.rows.values() if row.status == "pending"]
        assert len(set(codes)) == len(codes)
        assert all(code and 4 <= len(code) <= 8 and set(code) <= set(CODE_LETTERS) for code in codes)
        assert all(row.code is None for row in self.rows.values() if row.status != "pending")

    def nothing_runs_more_often_than_it_was_licensed(self) -> None:
        for shadow in self.shadows:
            licences = sum(event in ("allowed", "approved", "edited", "repeated") for event in shadow.events)
            assert self.rows[shadow.action_id].attempts <= licences
            only_asked = set(shadow.events) <= NEVER_LICENSED
            if shadow.events[0] == "refused" or only_asked:
                assert self.rows[shadow.action_id].attempts == 0


TestTheLedger = LedgerMachine.TestCase
TestTheLedger.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
