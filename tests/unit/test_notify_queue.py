"""The queue of notifications, in one process: whom it asks, what it drops, how it tries again."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import insert, select, update

from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.clock import stamp, stamp_in
from butler.people import Principal
from butler.redact import Redactor
from butler.storage import conversations
from butler.storage.tables import actions, links, notifications, users
from butler.types import Json
from config.notify_file import ChannelDefinition
from service.notify import queue
from service.notify.announcing import Announcer, Replies
from service.notify.channels import Channel, Channels
from service.notify.links import SignedLinks
from service.notify.notifier import Notifier, Pace, ago
from service.notify.preparing import Preparer
from service.notify.sender import Message
from tests.support.parts import (
    ADMIN,
    MAX,
    MIA,
    add_people,
    add_run,
    judge,
    new_database,
    proposed,
    registry,
    ruling,
    tool,
)

QUICK = Pace(look=0.01, first_retry=0.01, longest_retry=0.05, settle=1.0)
TROUBLE = (sqlite3.OperationalError,)


def channel(user: str, **changes: Any) -> ChannelDefinition:
    values: dict[str, Any] = {"events": frozenset({"approvals", "replies"}), "links": True, "source": "test"}
    return ChannelDefinition(user, SecretStr(f"json://{user}.example/planted-path"), **{**values, **changes})


class Post:
    """A sender that keeps what it is given; faults and gates are by user."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.faults: dict[str, list[str]] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.tries: list[str] = []
        self.arrived = asyncio.Condition()

    def limit(self, channel: Channel) -> int:
        return 10_000

    def busy(self, channel: Channel) -> bool:
        return False

    async def send(self, channel: Channel, message: Message) -> str | None:
        self.tries.append(channel.user)
        if (gate := self.gates.get(channel.user)) is not None:
            await gate.wait()
        if faults := self.faults.get(channel.user):
            return faults.pop(0)
        async with self.arrived:
            self.sent.append((channel.user, message.body))
            self.arrived.notify_all()
        return None

    def to(self, user: str) -> list[str]:
        return [body for name, body in self.sent if name == user]

    async def when(self, probe: Callable[[], object]) -> None:
        async with asyncio.timeout(10), self.arrived:
            await self.arrived.wait_for(probe)


class House:
    """What the notifier stands on."""

    def __init__(self, path: Path, *definitions: ChannelDefinition) -> None:
        self.database = new_database(path / "butler.db")
        self.database.write_now(add_people)
        self.channels = Channels(definitions)
        self.post = Post()
        self.links = SignedLinks(path, "http://butler.example")
        self.seen: list[tuple[str, str, str]] = []

    def notifier(self, pace: Pace = QUICK) -> Notifier:
        preparer = Preparer(self.links, registry(tool("act")), Redactor([]))
        return Notifier(self.database, self.channels, self.post, preparer, self._saw, TROUBLE, pace)

    def _saw(self, person: Principal, action_ids: Sequence[str], via: str) -> None:
        self.seen += [(person.name, action_id, via) for action_id in action_ids]

    @asynccontextmanager
    async def running(self, pace: Pace = QUICK) -> AsyncIterator[None]:
        task = asyncio.create_task(self.notifier(pace).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def look(self) -> list[Json]:
        """Queue what is new, and give the rows."""
        asyncio.run(Announcer(self.database, self.channels).look())
        return self.rows()

    def rows(self) -> list[Json]:
        query = select(notifications, users.c.name).join(users).order_by(notifications.c.seq)
        return self.database.write_now(lambda c: [dict(row._mapping) for row in c.execute(query)])

    async def until(self, status: str, count: int = 1) -> list[Json]:
        async with asyncio.timeout(10):
            while True:
                rows = await self.database.read(
                    lambda c: [dict(r._mapping) for r in c.execute(select(notifications)) if r.status == status]
                )
                if len(rows) >= count:
                    return rows
                await asyncio.sleep(0.005)

    def told(self) -> list[str]:
        return [row["name"] for row in self.rows()]

    def change(self, action: Action, **values: Any) -> None:
        self.database.write_now(
            lambda c: c.execute(update(actions).where(actions.c.action_id == action.action_id).values(**values))
        )

    def reject(self, action: Action) -> None:
        judging = judge(registry(tool("act")))
        self.database.write_now(
            lambda c: decide(c, action.action_id, Decision("reject"), ADMIN, via="test", judge=judging)
        )


Open = Callable[..., House]


@pytest.fixture
def open_house(tmp_path: Path) -> Any:
    made: list[House] = []

    def build(*definitions: ChannelDefinition) -> House:
        made.append(House(tmp_path, *(definitions or (channel("ada"), channel("mia"), channel("max")))))
        return made[-1]

    yield build
    for house in made:
        house.database.close()


def test_everyone_who_may_decide_is_asked_and_nobody_else(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    assert [row["name"] for row in house.look()] == ["ada"]


def test_deciders_whom_the_policy_names_are_asked_too(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve", deciders=("max", "admin")))
    assert sorted(row["name"] for row in house.look()) == ["ada", "max"]


def test_who_wants_no_requests_gets_none(open_house: Open) -> None:
    house = open_house(channel("ada", events=frozenset({"replies"})))
    proposed(house.database, ruling("approve"))
    assert house.look() == []


def test_a_disabled_person_gets_nothing(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve", deciders=("max", "admin")))
    house.database.write_now(
        lambda c: c.execute(update(users).where(users.c.name == "max").values(disabled_at=stamp()))
    )
    assert [row["name"] for row in house.look()] == ["ada"]


def test_looking_again_adds_nothing(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    assert len(house.look()) == len(house.look()) == 1


def test_what_is_asked_anew_is_told_anew(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve"))
    house.look()
    house.change(action, requested_at=stamp())
    assert len(house.look()) == 2


def test_after_escalation_the_further_deciders_are_asked(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve", deciders=("admin",)))
    house.change(action, escalate_at=stamp_in(3600), escalate_to=["max"])
    assert [row["name"] for row in house.look()] == ["ada"]
    house.change(action, escalate_at=ago(1))
    assert [(row["name"], row["kind"]) for row in house.look()] == [("ada", "approval"), ("max", "escalation")]
    assert len(house.look()) == 2


def test_more_pending_requests_than_one_look_takes_are_queued_page_by_page(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))

    def copies(connection: Any) -> None:
        row = dict(connection.execute(select(actions)).one()._mapping)
        connection.execute(
            insert(actions),
            [{**row, "action_id": f"a{n}", "call_id": f"c{n}", "code": None, "fingerprint": "f"} for n in range(1200)],
        )

    house.database.write_now(copies)
    assert len(house.look()) == 1201


def test_no_url_is_stored(open_house: Open, tmp_path: Path) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    house.look()
    assert b"planted-path" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def finished(house: House, run_id: str, person: Principal, status: Any = "done") -> None:
    def transaction(connection: Any) -> None:
        add_run(connection, run_id, person=person)
        run = conversations.move_run(connection, run_id, ["running"], status, reply="the answer")
        assert run is not None
        Replies(house.channels).ended(connection, run)

    house.database.write_now(transaction)


def test_a_finished_run_is_told_to_its_requester(open_house: Open) -> None:
    house = open_house()
    finished(house, "r1", MIA)
    finished(house, "r2", MAX, "failed")
    finished(house, "r3", ADMIN, "cancelled")
    assert [(row["name"], row["kind"], row["run_id"]) for row in house.rows()] == [
        ("mia", "reply", "r1"), ("max", "reply", "r2"),
    ]  # fmt: skip


def test_replies_nobody_wants_cost_no_statement(open_house: Open) -> None:
    house = open_house(channel("ada", events=frozenset({"approvals"})))
    run = conversations.Run("r", "t", 1, "u", "m", "done", "", None, None, False, 0, None, None, "", "")
    Replies(house.channels).ended(None, run)  # type: ignore[arg-type]


async def test_a_request_arrives_with_a_link_and_counts_as_shown(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve"))
    async with house.running():
        await house.post.when(lambda: house.post.to("ada"))
        await house.until("sent")
    [body] = house.post.to("ada")
    assert "http://butler.example/decide/" in body
    assert house.seen == [("ada", action.action_id, "notify")]


async def test_a_failed_message_is_tried_again_until_it_arrives(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    house.post.faults["ada"] = ["down", "down", "down"]
    async with house.running():
        [row] = await house.until("sent")
    assert row["attempts"] == 4
    assert row["error"] is None
    assert len(house.post.to("ada")) == 1


async def test_a_channel_that_works_again_gets_all_that_was_put_off(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    proposed(house.database, ruling("approve"), run_id="another", thread_id="another")
    house.post.faults["ada"] = ["down"] * 2
    # The second retry of one message would come after an hour; the other's success brings it forward.
    async with house.running(Pace(look=0.01, first_retry=0.05, longest_retry=3600.0)):
        await house.until("sent", 2)


async def test_a_message_that_never_arrives_is_given_up_after_its_time(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    house.post.faults["ada"] = ["down"] * 1000
    async with house.running(Pace(look=0.01, first_retry=0.001, longest_retry=0.01, give_up=0.2)):
        [row] = await house.until("failed")
    assert row["error"] == "down"
    [trouble] = house.database.write_now(lambda c: queue.troubles(c, ago(60)))
    assert (trouble.user, trouble.given_up, trouble.error) == ("ada", 1, "down")


async def test_a_slow_receiver_holds_up_nobody_else(open_house: Open) -> None:
    house = open_house()
    house.post.gates["ada"] = asyncio.Event()
    for number in range(3):
        proposed(
            house.database,
            ruling("approve", deciders=("max",)),
            run_id=f"r{number}",
            thread_id=f"t{number}",
            person=MIA,
        )
    async with house.running():
        await house.post.when(lambda: len(house.post.to("max")) == 3)
        assert house.post.tries.count("ada") == 1
        house.post.gates["ada"].set()
        await house.post.when(lambda: len(house.post.to("ada")) == 3)


async def test_what_was_decided_before_it_was_sent_is_dropped(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve"))
    await Announcer(house.database, house.channels).look()
    house.reject(action)
    async with house.running():
        [row] = await house.until("dropped")
    assert "decided" in row["error"]
    assert house.post.sent == []


@pytest.mark.parametrize(
    "statement",
    [
        update(users).where(users.c.name == "ada").values(disabled_at="2031"),
        update(users).where(users.c.name == "ada").values(role="member"),
        update(actions).values(expires_at="2020-01-01T00:00:00.000000Z"),
        update(actions).values(approved_by=[{"user_id": ADMIN.user_id, "by": "ada"}], approvals_needed=2),
    ],
)
async def test_what_is_nobodys_to_hear_any_more_is_dropped(open_house: Open, statement: Any) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    await Announcer(house.database, house.channels).look()
    await house.database.write(lambda c: c.execute(statement))
    async with house.running():
        await house.until("dropped")
    assert house.post.sent == []


async def test_what_waits_for_a_channel_that_is_gone_is_dropped(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    await Announcer(house.database, house.channels).look()
    house.channels = Channels([channel("mia")])
    async with house.running():
        [row] = await house.until("dropped")
    assert "not configured" in row["error"]


async def test_two_channels_of_a_person_share_one_link(open_house: Open) -> None:
    second = ChannelDefinition("ada", SecretStr("json://second.example"), frozenset({"approvals"}), True, "test")
    house = open_house(channel("ada"), second)
    proposed(house.database, ruling("approve"))
    async with house.running():
        await house.until("sent", 2)
    assert len(await house.database.read(lambda c: c.execute(select(links)).all())) == 1


async def test_a_fault_of_our_own_counts_as_a_failure_and_holds_up_nobody(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = open_house()
    proposed(house.database, ruling("approve", deciders=("max",)), person=MIA)
    plain = house.post.send

    async def broken(one: Channel, message: Message) -> str | None:
        if one.user == "ada":
            raise ValueError("planted-secret")
        return await plain(one, message)

    monkeypatch.setattr(house.post, "send", broken)
    async with house.running():
        await house.post.when(lambda: house.post.to("max"))
        await house.until("sent")
    [row] = [row for row in house.rows() if row["name"] == "ada"]
    assert row["status"] == "queued"
    assert "planted-secret" not in (row["error"] or "")


def test_sent_rows_go_after_thirty_days_unless_their_question_is_open(open_house: Open) -> None:
    house = open_house()
    [kept] = proposed(house.database, ruling("approve"))
    [gone] = proposed(house.database, ruling("approve"), run_id="another", thread_id="another")
    house.look()
    house.reject(gone)
    values = {"status": "sent", "finished_at": ago(31 * 24 * 3600)}
    house.database.write_now(lambda c: c.execute(update(notifications).values(**values)))
    house.database.write_now(lambda c: queue.sweep(c, ago(queue.KEPT_SECONDS)))
    assert [row["action_id"] for row in house.rows()] == [kept.action_id]
    assert len(house.look()) == 1


def test_pauses_double_up_to_an_hour_and_differ() -> None:
    pace = Pace()
    for failures, expected in ((1, 5), (2, 10), (5, 80), (12, 3600), (500, 3600)):
        pauses = {pace.retry(failures) for _ in range(20)}
        assert all(0.75 * expected <= pause <= 1.25 * expected for pause in pauses)
        assert len(pauses) > 1
