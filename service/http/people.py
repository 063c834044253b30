"""Users and tokens over HTTP: admins manage all of them, a member its own tokens (http-api, *Who is calling*)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Request
from pydantic import Field
from sqlalchemy import Connection
from starlette.responses import Response

from butler.errors import ButlerError
from butler.people import Actor, Principal, Role
from butler.storage import tokens, users
from butler.storage.tokens import MOST_LABEL_CHARACTERS, Token
from butler.storage.users import Account
from butler.types import Json
from service import auth
from service.auth import Doorkeeper
from service.events import to_json
from service.http.access import admin_only
from service.http.bodies import ExactJsonRoute, Strict
from service.http.chat import json_response, service_of
from service.http.security import caller, face

T = TypeVar("T")
NO_STORE = {"Cache-Control": "no-store"}
ADMINS = "Only an admin manages users."
NO_SUCH = "There is no such user, or it is not yours to know."
MOST_SECONDS = 100 * 366 * 24 * 3600


class NewUser(Strict):
    """``POST /users``."""

    name: Annotated[str, Field(pattern=rf"^{users.NAME.pattern}$")]
    role: Role = "member"


class UserChange(Strict):
    """``PATCH /users/{account}``; what is absent stays."""

    role: Role | None = None
    disabled: bool | None = None


class NewToken(Strict):
    """``POST /users/{user_name}/tokens``; `expires_in` in seconds."""

    label: Annotated[str, Field(min_length=1, max_length=MOST_LABEL_CHARACTERS)] = "extra"
    expires_in: Annotated[float, Field(gt=0, le=MOST_SECONDS)] | None = None


def people_routes() -> APIRouter:
    """The routes of this file."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.get("/me")
    async def me(request: Request) -> Response:
        """Who the token belongs to."""
        person = caller(request)
        return json_response({"user_id": person.user_id, "name": person.name, "role": person.role})

    @router.get("/users")
    async def list_users(request: Request) -> Response:
        """All users by name; for admins."""
        await admin_only(request, ADMINS)
        accounts = await service_of(request).database.read(users.list_accounts)
        return json_response({"items": [account.public() for account in accounts]})

    @router.post("/users", status_code=201)
    async def add_user(request: Request, body: NewUser) -> Response:
        """Make a user; its token is in this answer and nowhere else."""
        by = await _admin(request)

        def add(connection: Connection) -> tuple[Account, str]:
            person, token = users.add_user(connection, body.name, body.role, by)
            return users.get_account(connection, person.name), token

        account, token = await _changed(request, add)
        return _once({**account.public(), "token": token})

    @router.patch("/users/{account}")
    async def change_user(request: Request, account: str, body: UserChange) -> Response:
        """Give a user another role, shut it out or let it in; it holds from its next request on."""
        by = await _admin(request)

        def change(connection: Connection) -> Account:
            users.get_account(connection, account)
            if body.role is not None:
                users.set_role(connection, account, body.role, by)
            if body.disabled is not None:
                users.set_disabled(connection, account, body.disabled, by)
            return users.get_account(connection, account)

        return json_response((await _changed(request, change)).public())

    @router.get("/users/{user_name}/tokens")
    async def list_tokens(request: Request, user_name: str) -> Response:
        """The tokens that work, never the tokens themselves."""
        person = caller(request)

        def read(connection: Connection) -> list[Json]:
            found = tokens.live_tokens(connection, _whose(connection, user_name, person).user_id)
            return [token.public() for token in found]

        return json_response({"items": await service_of(request).database.read(read)})

    @router.post("/users/{user_name}/tokens", status_code=201)
    async def create_token(request: Request, user_name: str, body: NewToken) -> Response:
        """Make one more token; it is in this answer and nowhere else."""
        person = caller(request)

        def create(connection: Connection) -> tuple[Token, str]:
            whose = _whose(connection, user_name, person)
            return tokens.create_token(
                connection, whose, Actor(person.name, face(request)), label=body.label, expires_in=body.expires_in
            )

        kept, secret = await _changed(request, create)
        return _once({**kept.public(), "token": secret})

    @router.delete("/users/{user_name}/tokens/{token_id}", status_code=204)
    async def revoke_token(request: Request, user_name: str, token_id: str) -> Response:
        """End a token, from the next request on."""
        person = caller(request)

        def revoke(connection: Connection) -> list[Token]:
            return auth.revoke(
                connection, _whose(connection, user_name, person), Actor(person.name, face(request)), token_id
            )

        await _changed(request, revoke)
        return Response(status_code=204)

    return router


async def _admin(request: Request) -> Actor:
    return Actor((await admin_only(request, ADMINS)).name, face(request))


def _whose(connection: Connection, name: str, person: Principal) -> Principal:
    """The user of that name, if `person` may manage its tokens. Raises ButlerError ``not_found``."""
    found = users.find_user(connection, name) if person.is_admin or person.name == name else None
    if found is None:
        raise ButlerError("not_found", NO_SUCH)
    return found


async def _changed(request: Request, change: Callable[[Connection], T]) -> T:
    """Carry out a change of users or tokens, which holds in this process at once."""
    done = await service_of(request).database.write(change)
    doorkeeper = request.app.state.doorkeeper
    assert isinstance(doorkeeper, Doorkeeper)
    doorkeeper.forget_all()
    return done


def _once(value: Json) -> Response:
    """An answer with a token in it, which nothing on the way may keep."""
    return Response(to_json(value), 201, NO_STORE, media_type="application/json")
