"""The operations of the HTTP face, read from its OpenAPI document, so that a new route can't be forgotten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from unittest.mock import MagicMock

from service.http.app import create_app
from tests.support.client import Json

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Operation:
    """One method on one path."""

    method: str
    path: str
    about: Json

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def needs_token(self) -> bool:
        """Whether the document says that a token is needed."""
        return bool(self.about["security"])

    @property
    def params(self) -> list[str]:
        """The names in the path, in order."""
        return re.findall(r"{([^}]+)}", self.path)

    @property
    def statuses(self) -> set[int]:
        """Every status that the document allows."""
        return {int(status) for status in self.about["responses"]}

    def media_types(self, status: int) -> set[str]:
        """The media types of an answer with that status."""
        return set(self.about["responses"][str(status)].get("content", {}))


@cache
def document() -> Json:
    """The document of the application as it is, without a server; the same object each time, not to be changed."""
    found: Json = create_app(MagicMock()).openapi()
    return found


def operations() -> list[Operation]:
    """All of them, in the document's order."""
    return [
        Operation(method.upper(), path, about)
        for path, item in document()["paths"].items()
        for method, about in item.items()
        if method in METHODS
    ]
