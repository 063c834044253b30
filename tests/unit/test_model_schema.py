"""A hidden call may hold the answer to a schema; endpoints that can't are asked without it from then on (C4)."""

from __future__ import annotations

from typing import Any

import pytest

from butler.errors import ModelFailed
from butler.models.gateway import ModelConfig, ModelGateway
from tests.support.scripted_model import ScriptedModel

USER = [{"role": "user", "content": "take notes"}]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"notes": {"type": "array"}}, "required": ["notes"]}


async def noted(gateway: ModelGateway, schema: dict[str, Any] | None = SCHEMA) -> str:
    return await gateway.complete(USER, purpose="compaction", timeout=5, schema=schema)


def forms(model: ScriptedModel) -> list[Any]:
    return [entry["body"].get("response_format") for entry in model.requests(hidden=True)]


@pytest.fixture
def gateway(model: ScriptedModel) -> ModelGateway:
    return ModelGateway(ModelConfig(base_url=model.url, model="scripted", timeout=5.0))


async def test_the_schema_goes_into_the_request_and_only_where_one_is_given(
    model: ScriptedModel, gateway: ModelGateway
) -> None:
    model.reply(purpose="compaction", text='{"notes": []}', times=0)
    assert await noted(gateway) == '{"notes": []}'
    await noted(gateway, None)
    await gateway.stream(USER, [], lambda text: None)
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    assert forms(model) == [form, None, None]
    await gateway.aclose()


async def test_an_endpoint_that_refuses_the_form_is_asked_without_and_that_is_remembered(
    model: ScriptedModel, gateway: ModelGateway
) -> None:
    model.reply(purpose="compaction", status=400)
    model.reply(purpose="compaction", text="plain words", times=0)
    assert await noted(gateway) == "plain words"
    assert await noted(gateway) == "plain words"
    assert [form is None for form in forms(model)] == [False, True, True]
    await gateway.aclose()


async def test_a_request_that_is_refused_either_way_fails(model: ScriptedModel, gateway: ModelGateway) -> None:
    model.reply(purpose="compaction", status=400, times=0)
    with pytest.raises(ModelFailed):
        await noted(gateway)
    assert len(forms(model)) == 2
    await gateway.aclose()
