"""What Butler offers over MCP says the same as what it reads, and waits for nobody too long."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from butler.errors import ButlerError
from butler.people import Principal
from butler.types import Json
from service.mcp import tools as mcp_tools
from service.mcp.answers import stood
from service.mcp.bodies import BODIES, read_arguments
from service.mcp.offer import OFFERS, Offer
from service.mcp.patience import patiently
from service.mcp.stdio import DEFAULT_URL, TOLD, where
from service.mcp.tools import Tools

CONTRACT = {
    "chat": ({"message"}, {"thread_id"}),
    "delegate": ({"intent", "instruction"}, {"project_root", "constraints", "expect"}),
    "maid_run_status": ({"maid_run_id"}, set()),
    "approvals_list": (set(), {"thread_id"}),
    "approvals_decide": ({"action_id", "decision"}, {"reason", "args", "fingerprint"}),
    "session_complete": ({"maid_run_id", "decision"}, {"reason"}),
}
MIA = Principal("u-1", "mia", "member")


@pytest.mark.parametrize("offer", OFFERS, ids=lambda one: one.name)
def test_the_schema_is_the_contracts_and_the_readers(offer: Offer) -> None:
    required, optional = CONTRACT[offer.name]
    assert set(offer.arguments["properties"]) == required | optional
    assert set(offer.arguments["required"]) == required
    assert offer.arguments["additionalProperties"] is False
    body = BODIES[offer.name]
    assert set(body.model_fields) == required | optional
    assert {name for name, field in body.model_fields.items() if field.is_required()} == required
    for schema in (offer.arguments, offer.answer):
        Draft202012Validator.check_schema(schema)
    assert all(about.get("description") or "enum" in about for about in offer.arguments["properties"].values())
    for name, about in offer.arguments["properties"].items():
        if "enum" in about:
            assert tuple(about["enum"]) == get_args(body.model_fields[name].annotation)
    assert len(offer.description) > 100
    assert offer.read_only is (offer.name in ("maid_run_status", "approvals_list"))


def test_no_tool_is_missing() -> None:
    assert [offer.name for offer in OFFERS] == list(CONTRACT) == list(BODIES)


GOOD = {
    "chat": {"message": "hi"},
    "delegate": {"intent": "work", "instruction": "do it"},
    "maid_run_status": {"maid_run_id": "m"},
    "approvals_list": {},
    "approvals_decide": {"action_id": "a", "decision": "approve"},
    "session_complete": {"maid_run_id": "m", "decision": "reject"},
}


@pytest.mark.parametrize("offer", OFFERS, ids=lambda one: one.name)
@pytest.mark.parametrize("wrong", [1, True, [], {"a": 1}, "x" * 200_001, 1.5])
def test_what_the_schema_refuses_is_refused(offer: Offer, wrong: Any) -> None:
    schema = Draft202012Validator(offer.arguments)
    good = GOOD[offer.name]
    read_arguments(BODIES[offer.name], good)
    assert schema.is_valid(good)
    for name in (*offer.arguments["properties"], "unknown"):
        bad = {**good, name: wrong}
        if not schema.is_valid(bad):
            with pytest.raises(ButlerError, match=name) as caught:
                read_arguments(BODIES[offer.name], bad)
            assert caught.value.code == "invalid_request"
    for name in offer.arguments["required"]:
        with pytest.raises(ButlerError, match=f"{name}: is missing"):
            read_arguments(BODIES[offer.name], {key: value for key, value in good.items() if key != name})


async def test_a_wait_tells_that_it_goes_on_and_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.mcp.patience.PROGRESS_SECONDS", 0.01)
    told: list[float] = []
    cancelled = asyncio.Event()

    async def progress(spent: float, said: str) -> None:
        assert "seconds" in said
        told.append(spent)

    async def long() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    assert await patiently(long(), progress, 0.03) is None
    await cancelled.wait()
    assert told == [0.01, 0.02, 0.03]

    async def short() -> str:
        return "at once"

    assert await patiently(short(), progress, 0.03) == "at once"


async def test_a_long_turn_comes_back_as_running_with_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_tools, "CHAT_SECONDS", 0.0)
    outcome: Json = {
        "thread_id": "t", "run_id": "r-1", "status": "running", "reply": "", "approvals": [], "error": None,
        "usage": {},
    }  # fmt: skip

    async def chat(*_: object) -> object:
        return SimpleNamespace(outcome=lambda: asyncio.Event().wait(), run_id="r-1")

    async def run_outcome(person: Principal, run_id: str) -> object:
        assert (person, run_id) == (MIA, "r-1")
        return outcome

    showings = SimpleNamespace(outcome=lambda *_: None)
    service: Any = SimpleNamespace(chat=chat, run_outcome=run_outcome, showings=showings, database=None)

    async def progress(*_: object) -> None: ...

    answer = await Tools(service).call(MIA, "chat", {"message": "hi"}, progress)
    assert answer.value == outcome and not answer.is_error
    assert "butler://runs/r-1" in answer.text


@pytest.mark.parametrize(
    ("status", "more", "said"),
    [
        ("done", {"reply": "Good morning."}, "Good morning."),
        ("failed", {"error": {"code": "model_unavailable", "detail": "It is down."}}, "model_unavailable: It is down."),
        ("cancelled", {"reply": "So far"}, "So far\n\nThis turn was cancelled."),
        ("queued", {}, "Your message is kept"),
    ],
)
def test_an_outcome_reads_like_what_it_is(status: str, more: dict[str, Any], said: str) -> None:
    outcome = {"run_id": "r", "status": status, "reply": "", "error": None, **more}
    assert said in stood(outcome, []).text


def test_the_files_of_a_folder_send_no_token_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in TOLD:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text(
        "BUTLER_URL=https://evil.example\nBUTLER_HOST=evil.example\nBUTLER_TOKEN=of-the-file\n"
    )
    assert where().url == "https://evil.example" and where().token.get_secret_value() == "of-the-file"
    monkeypatch.setenv("BUTLER_TOKEN", "my-own")
    assert (where().url, where().token.get_secret_value()) == (DEFAULT_URL, "my-own")
    monkeypatch.setenv("BUTLER_URL", "https://butler.example/")
    assert where().url == "https://butler.example"
    (tmp_path / ".env").write_text("not an assignment\n")
    assert where().url == "https://butler.example"
