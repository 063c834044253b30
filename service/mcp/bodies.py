"""The arguments of each MCP tool, read as strictly as request bodies: unknown fields are refused (http-api)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError, field_validator

from butler.errors import ButlerError
from butler.tools.delegate_schema import MOST_INSTRUCTION
from butler.types import Json
from service.http.bodies import Strict, Text, Word
from service.http.faults import sentence_of

B = TypeVar("B", bound=Strict)
Short = Annotated[str, Field(min_length=1, max_length=100)]


class ChatArguments(Strict):
    """`chat`."""

    message: Text
    thread_id: Word | None = None

    @field_validator("message")
    @classmethod
    def _says_something(cls, message: str) -> str:
        if not message.strip():
            raise ValueError("is empty")
        return message


class DelegateArguments(Strict):
    """`delegate`; `expect` is a verification profile as in maid_registry.yml."""

    intent: Short
    instruction: Annotated[str, Field(min_length=1, max_length=MOST_INSTRUCTION)]
    project_root: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    constraints: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=50)] | None = None
    expect: dict[str, Any] | None = None


class MaidRunArguments(Strict):
    """`maid_run_status`."""

    maid_run_id: Word


class ListArguments(Strict):
    """`approvals_list`."""

    thread_id: Word | None = None


class DecideArguments(Strict):
    """`approvals_decide`; with respond the reason is the response."""

    action_id: Word
    decision: Literal["approve", "edit", "reject", "respond"]
    reason: Text | None = None
    args: dict[str, Any] | None = None
    fingerprint: Annotated[str, Field(max_length=100)] | None = None


class CompleteArguments(Strict):
    """`session_complete`."""

    maid_run_id: Word
    decision: Literal["approve", "reject"]
    reason: Text | None = None


BODIES: Mapping[str, type[Strict]] = MappingProxyType(
    {
        "chat": ChatArguments,
        "delegate": DelegateArguments,
        "maid_run_status": MaidRunArguments,
        "approvals_list": ListArguments,
        "approvals_decide": DecideArguments,
        "session_complete": CompleteArguments,
    }
)


def read_arguments(kind: type[B], arguments: Json) -> B:
    """The arguments of a call. Raises ButlerError ``invalid_request`` that names each fault."""
    try:
        return kind.model_validate(arguments)
    except ValidationError as error:
        raise ButlerError("invalid_request", sentence_of(RequestValidationError(error.errors()))) from None
