"""Pages of the inbox: everybody finds exactly what they may see, in order, whatever the size of a page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from butler.approvals.actions import Action
from butler.approvals.decide import may_see
from butler.approvals.ledger import get
from butler.people import Principal
from butler.storage.database import Database
from service.approvals import list_approvals
from tests.support.clockwork import MovingClock
from tests.support.parts import ADMIN, MAX, MIA, new_database, proposed, ruling

CHOICES = (None, ("admin",), ("requester",), ("mia",), ("member",), ("max", "requester"), ("nobody-here",))


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[tuple[Database, list[Action]]]:
    """Forty pending actions with deciders of every kind; every third escalates to somebody."""
    database = new_database(tmp_path / "butler.db")
    chance = random.Random(7)
    made: list[Action] = []
    with MovingClock() as clock:
        for number in range(40):
            asks = ruling("approve", deciders=chance.choice(CHOICES))
            if number % 3 == 0:
                asks = replace(
                    asks, escalate_after=60.0, escalate_to=chance.choice((("max",), ("member",), ("admin",)))
                )
            person = chance.choice((ADMIN, MIA, MAX))
            made += proposed(database, asks, run_id=f"r{number}", thread_id=f"t{number}", person=person)
        clock.move(3600)
        yield database, made
    database.close()


def paged(database: Database, person: Principal, size: int) -> list[str]:
    """The ids of all pages in order."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = partial(list_approvals, person=person, status="pending", thread_id=None, limit=size, cursor=cursor)
        items, cursor = database.write_now(page)
        assert len(items) == size or cursor is None
        found += [item.action_id for item in items]
        if cursor is None:
            return found


@pytest.mark.parametrize("person", [ADMIN, MIA, MAX], ids=lambda person: person.name)
@pytest.mark.parametrize("size", [1, 7, 40, 200])
def test_everybody_finds_exactly_what_they_may_see(
    inbox: tuple[Database, list[Action]], person: Principal, size: int
) -> None:
    database, made = inbox
    now = [database.write_now(partial(get, action_id=one.action_id)) for one in made]
    expected = [one.action_id for one in now if one is not None and may_see(one, person)]
    assert expected
    assert paged(database, person, size) == expected


def test_a_page_of_a_thread_holds_that_thread_alone(inbox: tuple[Database, list[Action]]) -> None:
    database, made = inbox
    items, cursor = database.write_now(
        lambda connection: list_approvals(
            connection, ADMIN, status=None, thread_id=made[3].thread_id, limit=50, cursor=None
        )
    )
    assert ([item.action_id for item in items], cursor) == ([made[3].action_id], None)
