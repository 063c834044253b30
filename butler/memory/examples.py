"""One worked example of notes in the language of the talk: small models follow it better than any rule (C4)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from butler.memory.scripts import scripts_of
from butler.types import Json

_Noted = Sequence[tuple[int, str, str]]


def _example(talk: str, notes: _Noted) -> tuple[Json, Json]:
    listed = [{"source": source, "kind": kind, "text": text} for source, kind, text in notes]
    answer = json.dumps({"notes": listed}, ensure_ascii=False)
    return {"role": "user", "content": f"Talk:\n{talk}"}, {"role": "assistant", "content": answer}


_ENGLISH = _example(
    "[1] user: Hello, please help me to find a flat in Graz.\n"
    "[2] assistant: Gladly. What may it cost? Graz has many quiet streets.\n"
    "[3] user: At most 900 euros. We decided on the Lend quarter, and my dog Rex must be allowed.\n"
    "[4] assistant: Good. I will look for that.",
    (
        (1, "goal", "The user looks for a flat in Graz."),
        (3, "fact", "The flat may cost at most 900 euros."),
        (3, "decision", "They decided on the Lend quarter."),
        (3, "fact", "The user's dog Rex must be allowed."),
    ),
)
_CHINESE = _example(
    "[1] user: 你好,请帮我在杭州找房子。\n"
    "[2] assistant: 好的。租金多少合适?杭州有很多安静的小区。\n"
    "[3] user: 最多4500元。我们决定住在西湖区,而且要能养狗,它叫豆豆。\n"
    "[4] assistant: 好,我按这个去找。",
    (
        (1, "goal", "用户想在杭州找房子。"),
        (3, "fact", "租金最多4500元。"),
        (3, "decision", "决定住在西湖区。"),
        (3, "fact", "要能养狗,狗叫豆豆。"),
    ),
)
_JAPANESE = _example(
    "[1] user: こんにちは。仙台で部屋を探すのを手伝ってください。\n"
    "[2] assistant: 喜んで。家賃はいくらまでですか。仙台には静かな町がたくさんあります。\n"
    "[3] user: 7万円までです。青葉区に決めました。犬のポチも一緒に住めることが必要です。\n"
    "[4] assistant: わかりました。その条件で探します。",
    (
        (1, "goal", "ユーザーは仙台で部屋を探している。"),
        (3, "fact", "家賃は7万円まで。"),
        (3, "decision", "青葉区に決めた。"),
        (3, "fact", "犬のポチも一緒に住めることが必要。"),
    ),
)


def example_for(talk: str) -> tuple[Json, Json]:
    """A short talk and its notes, in Chinese or Japanese where the talk is, else in English."""
    scripts = scripts_of(talk)
    if scripts.share("glued") > scripts.share("latin"):
        return _JAPANESE if scripts.kana_share > 0.2 else _CHINESE
    return _ENGLISH
