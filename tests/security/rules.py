"""Which answer each operation gives to whom: one row per operation, one rule set over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.security.operations import Operation
from tests.support.client import Json
from tests.support.orders import fresh

OUTSIDE = ("nobody", "forger", "disabled", "ended")
"""Callers without a token that opens the door."""
Body = Callable[[str], Json]
"""Makes the body of a request; it gets the id of the thing that the request is about."""


@dataclass(frozen=True)
class Row:
    """What an operation answers to people who have a token and a part in the house.

    Args:
        good: the status for whoever may do it.
        member: for a member with their own things, where that differs: a status and a code.
        open: the operation takes no token and answers everybody the same.
        admins_only: members get 403, whatever the request is about.
        names: the kind of thing that the body names, where the path doesn't.
        body: what to send.
        form: the body goes as a page sends its forms.
        private: nobody's but the owner's, admins included.
        shared: the thing is the whole house's.
        inside: the answer is 200 whatever comes of it, with one result inside for each thing that was named.
    """

    good: int = 200
    member: tuple[int, str] | None = None
    open: bool = False
    admins_only: bool = False
    names: str | None = None
    body: Body | None = None
    form: bool = False
    inside: bool = False
    private: bool = False
    shared: bool = False


QUERIES: dict[str, dict[str, str]] = {"GET /search": {"query": "something"}}
"""What an operation can't be asked without, by operation."""

ROWS: dict[str, Row] = {
    "GET /": Row(open=True),
    "GET /login": Row(open=True),
    "GET /web/{name}": Row(open=True),
    "GET /healthz": Row(open=True),
    "GET /readyz": Row(),
    "GET /metrics": Row(open=True),
    "POST /chat": Row(names="thread_id", body=lambda thread: {"message": "/help", "thread_id": thread}),
    "POST /threads/{thread_id}/resume": Row(
        member=(403, "not_an_approver"), body=lambda _: {"answer": {"approved": False, "comment": "no"}}
    ),
    "GET /threads": Row(),
    "GET /threads/{thread_id}": Row(),
    "GET /threads/{thread_id}/messages": Row(),
    "DELETE /threads/{thread_id}": Row(204),
    "GET /tools": Row(),
    "GET /runs/{run_id}": Row(),
    "GET /runs/{run_id}/events": Row(),
    "POST /runs/{run_id}/cancel": Row(202),
    "GET /approvals": Row(),
    "GET /approvals/{action_id}": Row(),
    "POST /approvals/{action_id}": Row(member=(403, "not_an_approver"), body=lambda _: {"decision": "reject"}),
    "POST /approvals": Row(
        member=(403, "not_an_approver"),
        names="action_id",
        body=lambda action: {"decisions": [{"action_id": action, "decision": "reject"}]},
        inside=True,
    ),
    "GET /approvals/{action_id}/grant": Row(member=(403, "not_an_approver")),
    "POST /approvals/{action_id}/grant": Row(member=(403, "not_an_approver"), body=lambda _: {"scope": "thread"}),
    "GET /decide/{token}": Row(open=True),
    "POST /decide/{token}": Row(open=True),
    "GET /me": Row(),
    "GET /users": Row(admins_only=True),
    "POST /users": Row(201, admins_only=True, body=lambda _: {"name": fresh("user"), "role": "member"}),
    "PATCH /users/{account}": Row(admins_only=True, body=lambda _: {"disabled": True}),
    "GET /users/{user_name}/tokens": Row(),
    "POST /users/{user_name}/tokens": Row(201, body=lambda _: {"label": "tests"}),
    "DELETE /users/{user_name}/tokens/{token_id}": Row(204),
    "GET /grants": Row(),
    "DELETE /grants/{grant_id}": Row(204),
    "POST /logout": Row(204),
    "GET /audit": Row(admins_only=True),
    "GET /search": Row(),
    "GET /memories": Row(),
    "POST /memories": Row(201, body=lambda _: {"text": fresh("fact")}),
    "DELETE /memories": Row(body=lambda _: {"confirm": True}),
    "GET /memories/export": Row(),
    "GET /memories/{memory_id}": Row(private=True),
    "PATCH /memories/{memory_id}": Row(private=True, body=lambda _: {"importance": 7}),
    "DELETE /memories/{memory_id}": Row(private=True),
    "POST /memories/{forgotten_id}/undo": Row(private=True),
    "GET /maids": Row(),
    "POST /maids/run": Row(
        202, body=lambda _: {"intent": "format", "instruction": fresh("task"), "project_root": "~/project"}
    ),
    "GET /maid-runs": Row(),
    "GET /maid-runs/{maid_run_id}": Row(),
    "POST /maid-runs/{maid_run_id}/cancel": Row(202),
    "GET /v1/models": Row(),
    "GET /v1/models/{model_id}": Row(shared=True),
    "POST /v1/chat/completions": Row(
        names="thread_id",
        body=lambda thread: {"messages": [{"role": "user", "content": "/help"}], "metadata": {"thread_id": thread}},
    ),
    "POST /mcp": Row(body=lambda _: {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
    "GET /memory": Row(),
    "POST /memory/add": Row(303, form=True, body=lambda _: {"text": fresh("fact"), "importance": "5"}),
    "POST /memory/edit": Row(
        303, form=True, private=True, names="memory_id",
        body=lambda memory: {"memory_id": memory, "text": fresh("fact"), "importance": "5"},
    ),
    "POST /memory/forget": Row(
        303, form=True, private=True, names="memory_id", body=lambda memory: {"memory_id": memory}
    ),
    "POST /memory/undo": Row(
        303, form=True, private=True, names="forgotten_id", body=lambda memory: {"memory_id": memory}
    ),
    "POST /memory/erase": Row(303, form=True, body=lambda _: {"confirm": "yes"}),
}  # fmt: skip


def row_of(operation: Operation) -> Row:
    """The operation's row. Raises AssertionError that names an operation nobody has thought about."""
    row = ROWS.get(str(operation))
    assert row is not None, f"{operation} has no row in tests/security/rules.py: say who may do it"
    return row


def kind_of(operation: Operation) -> str | None:
    """The kind of thing that the operation is about."""
    return operation.params[-1] if operation.params else row_of(operation).names


def expected(operation: Operation, who: str, whose: str | None) -> tuple[int, str | None]:
    """The status and, for a refusal, the code that `who` gets for a thing of `whose` (None: about no thing)."""
    row = row_of(operation)
    if who in OUTSIDE:
        return 401, "unauthorized"
    if who == "agent":
        return 403, "forbidden"
    member = who in ("member", "other")
    if member and row.admins_only:
        return 403, "forbidden"
    own = row.shared or (whose == "member's" and who == "member") or (whose == "admin's" and who == "admin")
    if whose == "unknown" or (whose is not None and (member or row.private) and not own):
        return 404, "not_found"
    if member and row.member is not None:
        return row.member
    return row.good, None
