"""Users and tokens in the database: who may sign in with what, and what the audit keeps of each change."""

from __future__ import annotations

import ast
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from butler.errors import ButlerError
from butler.people import Actor, Principal
from butler.storage import tokens, users
from butler.storage.audit import Filter, read_rows
from butler.storage.database import Database
from butler.storage.tables import tokens as table
from butler.types import Json
from service import auth
from service.auth import Doorkeeper, ensure_owner
from tests.support.parts import new_database

BY = Actor("ada", "shell")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = new_database(tmp_path / "butler.db")
    yield made
    made.close()


@pytest.fixture
def ann(database: Database) -> tuple[Principal, str]:
    return database.write_now(lambda c: users.add_user(c, "ann", "member", BY))


def owner_of(database: Database, data_dir: Path, wanted: str | None = None) -> tuple[Principal, str]:
    token = database.write_now(lambda c: ensure_owner(c, data_dir, wanted))
    return database.write_now(lambda c: users.the_user(c, "owner")), token


def who(database: Database, token: str) -> str | None:
    person = database.write_now(lambda c: tokens.user_of_token(c, token))
    return person.name if person else None


def told(database: Database) -> list[Json]:
    return database.write_now(lambda c: read_rows(c, Filter(), 100))


def refused(database: Database, code: str, change: Any) -> str:
    with pytest.raises(ButlerError) as caught:
        database.write_now(change)
    assert caught.value.code == code
    return caught.value.detail


def test_a_disabled_user_is_shut_out_with_every_token_until_it_is_enabled(
    database: Database, ann: tuple[Principal, str]
) -> None:
    person, first = ann
    _, second = database.write_now(lambda c: tokens.create_token(c, person, BY, label="phone"))
    database.write_now(lambda c: users.set_disabled(c, "ann", True, BY))
    assert (who(database, first), who(database, second)) == (None, None)
    assert person not in database.write_now(users.active_people)
    database.write_now(lambda c: users.set_disabled(c, "ann", False, BY))
    assert (who(database, first), who(database, second)) == ("ann", "ann")
    assert person in database.write_now(users.active_people)


def test_a_token_ends_when_its_time_is_over(database: Database, ann: tuple[Principal, str]) -> None:
    _, token = database.write_now(lambda c: tokens.create_token(c, ann[0], BY, label="guest", expires_in=3600))
    assert who(database, token) == "ann"
    gone = update(table).where(table.c.label == "guest").values(expires_at="2020-01-01T00:00:00.000000Z")
    database.write_now(lambda c: c.execute(gone))
    assert who(database, token) is None
    assert [one.label for one in database.write_now(lambda c: tokens.live_tokens(c, ann[0].user_id))] == [""]


def test_only_the_revoked_token_ends(database: Database, ann: tuple[Principal, str]) -> None:
    person, first = ann
    kept, second = database.write_now(lambda c: tokens.create_token(c, person, BY, label="phone"))
    database.write_now(lambda c: auth.revoke(c, person, BY, kept.token_id))
    assert (who(database, first), who(database, second)) == ("ann", None)
    refused(database, "not_found", lambda c: auth.revoke(c, person, BY, kept.token_id))
    assert len(database.write_now(lambda c: auth.revoke(c, person, BY, None))) == 1
    assert who(database, first) is None


def test_rotating_one_token_keeps_its_label_and_its_lifetime(
    database: Database, tmp_path: Path, ann: tuple[Principal, str]
) -> None:
    person, first = ann
    old, secret = database.write_now(lambda c: tokens.create_token(c, person, BY, label="phone", expires_in=3600))
    new, fresh = database.write_now(lambda c: auth.rotate(c, person, BY, old.token_id, data_dir=tmp_path, fixed=False))
    assert (who(database, secret), who(database, fresh), who(database, first)) == (None, "ann", "ann")
    assert new.label == "phone" and new.token_id != old.token_id
    assert new.expires_at is not None and old.expires_at is not None and new.expires_at >= old.expires_at


def test_rotating_all_leaves_one_token(database: Database, tmp_path: Path, ann: tuple[Principal, str]) -> None:
    person, first = ann
    _, second = database.write_now(lambda c: tokens.create_token(c, person, BY, label="phone"))
    _, fresh = database.write_now(lambda c: auth.rotate(c, person, BY, None, data_dir=tmp_path, fixed=False))
    assert [who(database, token) for token in (first, second, fresh)] == [None, None, "ann"]


def test_the_owners_new_first_token_is_that_of_the_next_start(database: Database, tmp_path: Path) -> None:
    owner, old = owner_of(database, tmp_path)
    _, fresh = database.write_now(lambda c: auth.rotate(c, owner, BY, None, data_dir=tmp_path, fixed=False))
    assert (tmp_path / "owner.token").read_text().strip() == fresh
    assert (tmp_path / "owner.token").stat().st_mode & 0o777 == 0o600
    assert owner_of(database, tmp_path)[1] == fresh
    assert (who(database, old), who(database, fresh)) == (None, "owner")


def test_a_fixed_owner_token_is_not_rotated_behind_its_variable(database: Database, tmp_path: Path) -> None:
    owner, token = owner_of(database, tmp_path, "a-fixed-owner-token")
    detail = refused(
        database, "invalid_request", lambda c: auth.rotate(c, owner, BY, None, data_dir=tmp_path, fixed=True)
    )
    assert "BUTLER_OWNER_TOKEN" in detail
    assert who(database, token) == "owner"


def test_the_owners_labelled_tokens_outlive_a_new_first_one(database: Database, tmp_path: Path) -> None:
    owner, old = owner_of(database, tmp_path)
    phone, secret = database.write_now(lambda c: tokens.create_token(c, owner, BY, label="phone"))
    owner_of(database, tmp_path, "a-token-from-the-environment")
    assert [who(database, one) for one in (old, secret, "a-token-from-the-environment")] == [None, "owner", "owner"]
    rotated = [row for row in told(database) if row["event"] == "token_rotated"]
    assert [row["actor"] for row in rotated] == ["butler"]
    database.write_now(lambda c: auth.revoke(c, owner, BY, phone.token_id))
    assert who(database, secret) is None


def test_the_owners_first_token_is_replaced_but_never_just_ended(database: Database, tmp_path: Path) -> None:
    owner, token = owner_of(database, tmp_path)
    [first] = database.write_now(lambda c: tokens.live_tokens(c, owner.user_id))
    detail = refused(database, "invalid_request", lambda c: auth.revoke(c, owner, BY, first.token_id))
    assert "token rotate owner" in detail
    assert database.write_now(lambda c: auth.revoke(c, owner, BY, None)) == []
    assert who(database, token) == "owner"


def test_starting_again_with_the_same_token_changes_and_tells_nothing(database: Database, tmp_path: Path) -> None:
    owner_of(database, tmp_path)
    before = told(database)
    owner_of(database, tmp_path)
    assert told(database) == before
    assert [row["event"] for row in before] == ["user_added", "token_created"]


@pytest.mark.parametrize("role", ["member", "agent"])
def test_the_last_admin_stays_one(database: Database, tmp_path: Path, role: str) -> None:
    owner_of(database, tmp_path)
    refused(database, "invalid_request", lambda c: users.set_role(c, "owner", role, BY))
    refused(database, "invalid_request", lambda c: users.set_disabled(c, "owner", True, BY))
    database.write_now(lambda c: users.add_user(c, "eve", "admin", BY))
    database.write_now(lambda c: users.set_disabled(c, "eve", True, BY))
    refused(database, "invalid_request", lambda c: users.set_role(c, "owner", role, BY))  # a disabled one is none
    database.write_now(lambda c: users.set_disabled(c, "eve", False, BY))
    database.write_now(lambda c: users.set_role(c, "owner", role, BY))
    refused(database, "invalid_request", lambda c: users.set_disabled(c, "eve", True, BY))


def test_every_change_is_in_the_audit_without_any_token(database: Database, ann: tuple[Principal, str]) -> None:
    person, first = ann
    kept, second = database.write_now(lambda c: tokens.create_token(c, person, BY, label="phone"))
    third = database.write_now(lambda c: tokens.rotate_tokens(c, person, BY))[1]
    database.write_now(lambda c: auth.revoke(c, person, BY, None))
    database.write_now(lambda c: users.set_role(c, "ann", "admin", BY))
    database.write_now(lambda c: users.set_role(c, "ann", "admin", BY))  # nothing changes, nothing is told
    database.write_now(lambda c: users.add_user(c, "eve", "admin", BY))
    database.write_now(lambda c: users.set_disabled(c, "ann", True, BY))
    database.write_now(lambda c: users.set_disabled(c, "ann", False, BY))
    rows = told(database)
    assert [row["event"] for row in rows] == [
        "user_added", "token_created", "token_rotated", "token_revoked", "role_changed", "user_added",
        "user_disabled", "user_enabled",
    ]  # fmt: skip
    assert {(row["actor"], row["via"]) for row in rows} == {("ada", "shell")}
    assert kept.token_id in rows[2]["data"]["replaced"]
    assert rows[4]["data"] == {"user": "ann", "role": "admin", "before": "member"}
    for secret in (first, second, third):
        assert secret not in str(rows) and tokens.hash_token(secret) not in str(rows)


def test_no_token_is_stored_in_clear(database: Database, ann: tuple[Principal, str]) -> None:
    rows = database.write_now(lambda c: c.execute(select(table)).all())
    assert ann[1] not in str(rows)


@pytest.mark.parametrize("label", ["", "   ", "a\nb", "x" * 65, "\x07"])
def test_a_label_is_a_short_line(database: Database, ann: tuple[Principal, str], label: str) -> None:
    refused(database, "invalid_request", lambda c: tokens.create_token(c, ann[0], BY, label=label))


def test_a_look_up_compares_digests_in_constant_time(
    database: Database, ann: tuple[Principal, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []
    compare = hmac.compare_digest

    def spy(left: str, right: str) -> bool:
        compared.append((left, right))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    assert who(database, ann[1]) == "ann"
    assert compared == [(tokens.hash_token(ann[1]),) * 2]


def test_no_source_compares_a_token_that_is_not_hashed() -> None:
    """Names that hold a token in clear never stand beside ``==`` or ``!=``, but for a fixed word."""
    clear = {"token", "secret", "owner_token", "presented", "bearer"}
    faults = []
    for room in ("butler", "service", "server.py"):
        for path in [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                    sides = [node.left, *node.comparators]
                    named = {side.id for side in sides if isinstance(side, ast.Name)}
                    if named & clear and not any(isinstance(side, ast.Constant) for side in sides):
                        faults.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert faults == []


async def test_a_change_in_this_process_holds_from_the_next_request_on(
    database: Database, ann: tuple[Principal, str]
) -> None:
    doorkeeper = Doorkeeper(database)
    assert (await doorkeeper.who(ann[1])).role == "member"
    await database.write(lambda c: users.set_role(c, "ann", "admin", BY))
    doorkeeper.forget_all()
    assert (await doorkeeper.who(ann[1])).role == "admin"
    await database.write(lambda c: auth.revoke(c, ann[0], BY, None))
    doorkeeper.forget_all()
    with pytest.raises(ButlerError, match="token"):
        await doorkeeper.who(ann[1])


async def test_a_look_up_that_began_before_the_change_is_not_remembered(
    database: Database, ann: tuple[Principal, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doorkeeper = Doorkeeper(database)
    read = database.read

    async def slow(query: Any) -> Any:
        found = await read(query)
        await database.write(lambda c: auth.revoke(c, ann[0], BY, None))
        doorkeeper.forget_all()
        return found

    monkeypatch.setattr(database, "read", slow)
    assert (await doorkeeper.who(ann[1])).name == "ann"
    monkeypatch.undo()
    with pytest.raises(ButlerError, match="token"):
        await doorkeeper.who(ann[1])


@pytest.mark.parametrize("name", ["Owner", "OWNER", "clock", "Shell", "recovery", "Butler"])
def test_a_name_that_reads_like_another_actor_of_the_audit_is_refused(database: Database, name: str) -> None:
    database.write_now(lambda c: users.add_user(c, "owner", "admin", BY))
    with pytest.raises(ButlerError) as refused:
        database.write_now(lambda c: users.add_user(c, name, "member", BY))
    assert refused.value.code == "invalid_request"
