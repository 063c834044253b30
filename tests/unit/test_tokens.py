"""Token estimates beside counts by a real tokenizer: Qwen2.5's, taken with llama.cpp and written down here (C2)."""

from __future__ import annotations

import json

import pytest

from butler.memory.tokens import count_tokens
from tests.support.talks import CHINESE, ENGLISH, JAPANESE

ROWS = json.dumps(
    [
        {"id": number, "name": f"item {number}", "price": number * 3.5, "uuid": "550e8400-e29b-41d4-a716-446655440000"}
        for number in range(40)
    ]
)
COUNTED = {
    "English": ("\n".join(ENGLISH.told), 417),
    "Chinese": ("\n".join(CHINESE.told), 322),
    "Japanese": ("\n".join(JAPANESE.told), 450),
    "Korean": (
        "안녕하세요. 어머니 생신에 맞춰 여행을 계획하고 싶습니다. 예산은 모두 삼백만 원입니다." * 3, 93,
    ),
    "German": (
        "Wir möchten im Mai nach Lissabon reisen und brauchen ein ruhiges Hotel in der Nähe der Burg, "
        "höchstens 3200 Euro.", 34,
    ),
    "Russian": ("Мы хотим поехать в Лиссабон в мае и ищем тихую гостиницу рядом с замком." * 3, 96),  # noqa: RUF001
    "JSON": (ROWS, 2550),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_an_estimate_is_at_most_a_tenth_too_low_and_seven_tenths_too_high(name: str) -> None:
    text, real = COUNTED[name]
    assert 0.9 <= count_tokens(text) / real <= 1.7
