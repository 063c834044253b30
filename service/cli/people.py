"""`butler user` whole: people, and the family of commands for their tokens."""

from __future__ import annotations

from service.cli.tokens import token_app
from service.cli.users import user_app

user_app.add_typer(token_app, name="token")
