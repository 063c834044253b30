"""Sending what is queued: what is dropped, how it is tried again, and whom trouble holds up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from butler.storage.tables import actions, links, users
from config.notify_file import ChannelDefinition
from service.notify import queue
from service.notify.announcing import Announcer
from service.notify.channels import Channel, Channels
from service.notify.notifier import Pace, ago
from service.notify.sender import Message
from tests.support.notifying import House, channel
from tests.support.parts import (
    ADMIN,
    MIA,
    proposed,
    ruling,
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


def test_pauses_double_up_to_an_hour_and_differ() -> None:
    pace = Pace()
    for failures, expected in ((1, 5), (2, 10), (5, 80), (12, 3600), (500, 3600)):
        pauses = {pace.retry(failures) for _ in range(20)}
        assert all(0.75 * expected <= pause <= 1.25 * expected for pause in pauses)
        assert len(pauses) > 1
