"""Request bodies: strict models, unknown fields refused, other clients' decision forms read (http-api, *Resume*)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from butler.approvals.decide import Decision, check_shape
from butler.approvals.grants import GrantWish
from butler.errors import ButlerError
from butler.exactjson import InexactError, loads_exactly
from butler.nesting import MOST_LEVELS, nested_too_deeply
from service.naming import Named

MOST_MESSAGE_CHARACTERS = 200_000
MOST_BODY_LEVELS = MOST_LEVELS + 4
"""The arguments of an edit stand four levels deep in a resume and have a limit of their own."""
FORMS = frozenset({"by name", "by place"})
"""What pydantic puts into a fault's place for the form it chose; no field has such a name."""
Text = Annotated[str, Field(max_length=MOST_MESSAGE_CHARACTERS)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class Strict(BaseModel):
    """Base of all bodies: exact types, nothing unknown."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class ChatBody(Strict):
    """``POST /chat``."""

    message: Text
    thread_id: Word | None = None
    if_parked: Literal["queue", "decline", "reject"] = "queue"
    wait: bool = True

    @field_validator("message")
    @classmethod
    def _says_something(cls, message: str) -> str:
        if not message.strip():
            raise ValueError("is empty")
        return message


Glob = Annotated[str, Field(max_length=2000)]


def _words(globs: list[str]) -> list[str]:
    if "**" in globs[:-1]:
        raise ValueError("'**' means any further words, so it must be the last item")
    return globs


class GrantTerms(Strict):
    """What a grant is to cover."""

    scope: Literal["thread", "user", "everyone"]
    args: (
        dict[str, Glob | Annotated[list[Glob], Field(min_length=1, max_length=200), AfterValidator(_words)]] | None
    ) = None
    closed: bool | None = None
    expires_in: Annotated[float, Field(gt=0)] | None = None
    uses: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    def wish(self) -> GrantWish:
        """The wish in the ledger's terms."""
        confirm = isinstance(self, GrantBody) and self.confirm
        return GrantWish(self.scope, self.args, self.expires_in, self.uses, confirm, self.closed)


class GrantBody(GrantTerms):
    """The `grant` beside an approve; `confirm` is needed for a wide one."""

    confirm: bool = False


class DecisionBody(Strict):
    """One decision, without saying for which action."""

    decision: Literal["approve", "edit", "reject", "respond"]
    args: dict[str, Any] | None = None
    reason: Text | None = None
    response: Text | None = None
    fingerprint: Annotated[str, Field(max_length=100)] | None = None
    grant: GrantBody | None = None

    def read(self) -> Decision:
        """The decision. Raises ButlerError ``invalid_request`` for combinations that mean nothing."""
        wish = self.grant.wish() if self.grant else None
        decision = Decision(self.decision, self.args, self.reason, self.response, self.fingerprint, wish)
        check_shape(decision)
        return decision


class NamedDecisionBody(DecisionBody):
    """One decision of a resume, for the action with an id or a code."""

    action_id: Word | None = None
    code: Word | None = None

    @model_validator(mode="after")
    def _names_one_action(self) -> Self:
        if (self.action_id is None) == (self.code is None):
            raise ValueError("name the action by `action_id` or by `code`, one of them")
        return self


class ManyBody(Strict):
    """``POST /approvals``: decisions over all threads, each on its own."""

    decisions: Annotated[list[NamedDecisionBody], Field(min_length=1, max_length=200)]

    def read(self) -> list[Named]:
        """The decisions with the actions they name."""
        return [Named(one.read(), one.action_id, one.code) for one in self.decisions]


class EditedAction(Strict):
    """LangChain's edited call; the name may only repeat the tool's."""

    name: str | None = None
    args: dict[str, Any]


class LangChainDecision(Strict):
    """LangChain's form of a decision, which goes by its place among the pending actions."""

    type: Literal["approve", "edit", "reject", "respond"]
    message: Text | None = None
    args: dict[str, Any] | None = None
    edited_action: EditedAction | None = None

    def read(self) -> Named:
        """The decision in our own terms."""
        args = self.edited_action.args if self.edited_action else self.args
        reason = self.message if self.type in ("approve", "edit", "reject") else None
        response = self.message if self.type == "respond" else None
        decision = Decision(self.type, args, reason, response)
        check_shape(decision)
        return Named(decision, tool=self.edited_action.name if self.edited_action else None)


class Answer(Strict):
    """The plain answer, yes or no, to a single pending action."""

    approved: bool
    comment: Text | None = None


def _form_of(decision: Any) -> str:
    """Which of the two forms a decision has; told by its keys, so that faults are those of one form only."""
    if isinstance(decision, LangChainDecision):
        return "by place"
    return "by place" if isinstance(decision, dict) and "type" in decision else "by name"


AnyDecision = Annotated[
    Annotated[NamedDecisionBody, Tag("by name")] | Annotated[LangChainDecision, Tag("by place")],
    Discriminator(_form_of),
]


class ResumeBody(Strict):
    """``POST /threads/{thread_id}/resume`` in any of its three forms."""

    decisions: Annotated[list[AnyDecision], Field(min_length=1, max_length=500)] | None = None
    answer: Answer | None = None
    wait: bool = True

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.decisions is None) == (self.answer is None):
            raise ValueError("give `decisions` or `answer`, one of them")
        if len({type(decision) for decision in self.decisions or ()}) > 1:
            raise ValueError("give all `decisions` with `decision` or all with `type`")
        return self

    def read(self) -> list[Named]:
        """The decisions with the actions they name."""
        if self.answer is not None:
            kind: Literal["approve", "reject"] = "approve" if self.answer.approved else "reject"
            return [Named(Decision(kind, reason=self.answer.comment))]
        return [
            one.read() if isinstance(one, LangChainDecision) else Named(one.read(), one.action_id, one.code)
            for one in self.decisions or ()
        ]


def read_json(body: bytes) -> Any:
    """Read a body. Raises ButlerError ``invalid_request``."""
    try:
        value = loads_exactly(body.decode("utf-8-sig"))
        deep = nested_too_deeply(value, MOST_BODY_LEVELS)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        raise ButlerError("invalid_request", f"The body is not JSON: {error.msg} at {place}.") from None
    except UnicodeDecodeError as error:
        raise ButlerError("invalid_request", f"The body is not UTF-8: byte {error.start} is none.") from None
    except UnicodeEncodeError:
        raise ButlerError("invalid_request", "The body holds half of a surrogate pair, which is no text.") from None
    except RecursionError:
        deep = True
    except InexactError as error:
        raise ButlerError("invalid_request", f"The body is not JSON: {error}.") from None
    except ValueError:
        raise ButlerError("invalid_request", "The body holds a number with too many digits.") from None
    if deep:
        raise ButlerError("invalid_request", f"The body is nested more than {MOST_BODY_LEVELS} levels deep.")
    return value


class ExactJsonRequest(Request):
    """Reads JSON exactly: no NaN, no lone surrogates, no nesting that would break what comes after."""

    async def json(self) -> Any:
        """The parsed body. Raises ButlerError ``invalid_request`` that says where and what is wrong with it."""
        if not hasattr(self, "_json"):
            self._json = read_json(await self.body())
        return self._json


class ExactJsonRoute(APIRoute):
    """A route whose body is read by `ExactJsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Wrap the handler with the exact reader; a body over the limit keeps its own error."""
        original = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                response: Response = await original(ExactJsonRequest(request.scope, request.receive))
            except Exception as error:
                # FastAPI turns what a body read raises into a plain 400; ours says what it is.
                if isinstance(error.__cause__, ButlerError):
                    raise error.__cause__ from None
                raise
            return response

        return handler
