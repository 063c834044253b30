"""`butler user token`: several per user, made, listed, replaced and ended beside a running server."""

from __future__ import annotations

from typing import Annotated

import typer
from sqlalchemy import Connection

from butler.people import Principal
from butler.storage.tokens import Token, create_token, live_tokens
from butler.storage.users import OWNER, the_user
from config.settings import load_settings
from service import auth
from service.address import TOKEN_FILE
from service.cli.grantwish import seconds
from service.cli.plain import json_document
from service.cli.users import AsJson, Name, changed, operator, show

token_app = typer.Typer(help="Tokens of a user; only hashes are kept.", no_args_is_help=True)
TokenId = Annotated[str | None, typer.Argument(help="Which token, as `list` shows it.")]


@token_app.command("create")
def token_create(
    name: Name,
    label: Annotated[str, typer.Option(help="What it is for, such as the device.")] = "extra",
    expires_in: Annotated[str, typer.Option(help="How long it works: 90 (days), 15m, 8h, 7d.", metavar="TIME")] = "",
    as_json: AsJson = False,
) -> None:
    """Make one more token and print it, alone on the last line."""

    lasts = seconds(f"{expires_in}d" if expires_in.isdecimal() else expires_in) if expires_in else None

    def make(connection: Connection) -> tuple[Token, str]:
        return create_token(connection, the_user(connection, name), operator(), label=label, expires_in=lasts)

    kept, secret = changed(make)
    _print_once(f"{name} has a new token, {kept.token_id} ({kept.label}){_until(kept)}.", kept, secret, as_json)


@token_app.command("list")
def token_list(name: Name, as_json: AsJson = False) -> None:
    """List the tokens that work, never the tokens themselves."""
    found = changed(lambda connection: live_tokens(connection, the_user(connection, name).user_id))
    show([token.public() for token in found], as_json, "token_id", "label", "created_at", "expires_at")


@token_app.command("rotate")
def token_rotate(name: Name, token_id: TokenId = None, as_json: AsJson = False) -> None:
    """Replace one token, or all of them by a single new one, printed alone on the last line."""
    settings = load_settings()

    def replace(connection: Connection) -> tuple[Token, str]:
        return auth.rotate(
            connection, the_user(connection, name), operator(), token_id,
            data_dir=settings.data_dir, fixed=settings.owner_token is not None,
        )  # fmt: skip

    kept, secret = changed(replace)
    what = f"The token {token_id} of {name} has" if token_id else f"All tokens of {name} have"
    _print_once(f"{what} ended. The new one is {kept.token_id}{_until(kept)}.", kept, secret, as_json)


@token_app.command("revoke")
def token_revoke(
    name: Name,
    token_id: TokenId = None,
    every: Annotated[bool, typer.Option("--all", help="All tokens of the user.")] = False,
    as_json: AsJson = False,
) -> None:
    """End a token, or all of a user; a running server knows within a second."""
    if (token_id is None) != every:
        raise typer.BadParameter("name one token, or say --all")
    found = changed(lambda connection: _revoke(connection, the_user(connection, name), token_id))
    if as_json:
        print(json_document({"items": [token.public() for token in found]}))
        return
    print(f"{len(found)} token(s) of {name} ended.")
    if name == OWNER:
        print(f"The one in {TOKEN_FILE} stays; `butler user token rotate {OWNER}` replaces it.")


def _revoke(connection: Connection, person: Principal, token_id: str | None) -> list[Token]:
    return auth.revoke(connection, person, operator(), token_id)


def _until(token: Token) -> str:
    return f", good until {token.expires_at}" if token.expires_at else ""


def _print_once(what: str, kept: Token, secret: str, as_json: bool) -> None:
    if as_json:
        print(json_document({**kept.public(), "token": secret}))
        return
    print(f"{what} It is shown only now:")
    print(secret)
