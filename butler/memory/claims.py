"""Finds statements that something was done which no tool result and no person bears out (C3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from butler.memory.grounding import text_of
from butler.memory.words import Reading, read
from butler.turn import FAILED
from butler.types import ChatMessage

_FAILED = re.compile(
    r"not run\b|refused\b|the tool failed\b|no result\b|error\b|failed\b|.{0,200}whether it took effect is unknown",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class _Deed:
    """One kind of act: how it is said to be done, and the words by which a tool or its result shows it."""

    done: re.Pattern[str]
    shown: re.Pattern[str]


def _deed(english: str, glued: str, shown: str) -> _Deed:
    return _Deed(re.compile(rf"\b(?:{english})\b|{glued}", re.IGNORECASE), re.compile(shown, re.IGNORECASE))


_DEEDS = (
    _deed(
        "sent|e-?mailed|mailed|forwarded|notified|gesendet|geschickt|verschickt|envoyée?s?|enviad[oa]s?|inviat[oa]",
        "已(?:经)?(?:发送|发出|寄出|发给|通知)|(?:发送|发出|寄出|通知|转发)了|(?:送信|送付|発送|通知)(?:し(?:た|まし)|され(?:た|まし)|済)|送(?:った|りました)",
        "send|sent|mail|message|notif|post|forward|sms|slack|telegram|发送|发|邮件|通知|送信|送付|メール",
    ),
    _deed(
        "deleted|erased|wiped|removed|gelöscht|supprimée?s?|effacée?s?|eliminad[oa]s?|borrad[oa]s?",
        "已(?:经)?(?:删除|删掉|清除|移除)|(?:删除|删掉|清除)了|(?:削除|消去|除去)(?:し(?:た|まし)|され(?:た|まし)|済)|消(?:した|しました)",
        "delet|remov|eras|wipe|clear|trash|\\brm\\b|unlink|drop|删|清除|移除|削除|消去",
    ),
    _deed(
        "paid|transferred|wired|purchased|bought|ordered|bezahlt|überwiesen|gekauft|bestellt|payée?s?|achetée?s?|pagad[oa]s?|comprad[oa]s?",
        "已(?:经)?(?:付款|支付|付清|转账|汇款|购买|买下|下单|订购)|(?:支付|付|转账|购买|买|下单)了|(?:支払|払)(?:った|いまし|い済)|(?:振込|購入|注文|送金)(?:し(?:た|まし)|され(?:た|まし)|済)",
        "pay|paid|transfer|wire|purchas|buy|bought|order|invoice|checkout|付|支付|转账|购买|下单|支払|払|振込|購入|注文|送金",
    ),
    _deed(
        "booked|reserved|gebucht|reserviert|réservée?s?|reservad[oa]s?",
        "已(?:经)?(?:预订|预定|订好|预约)|(?:预订|预定|预约)了|予約(?:し(?:た|まし)|され(?:た|まし)|済)",
        "book|reserv|预订|预定|预约|订|予約",
    ),
    _deed(
        "executed|ran|deployed|restarted|rebooted|installed|shut down|ausgeführt|gestartet|installiert|exécutée?s?",
        "已(?:经)?(?:执行|运行|部署|重启|安装)|(?:执行|运行|部署|重启|安装)了|(?:実行|起動|再起動|デプロイ|インストール)(?:し(?:た|まし)|され(?:た|まし)|済)",
        "exec|run|ran|deploy|restart|reboot|install|start|shell|command|script|执行|运行|部署|重启|安装|実行|起動|デプロイ",
    ),
    _deed(
        "published|posted|uploaded|veröffentlicht|hochgeladen|publiée?s?|publicad[oa]s?",
        "已(?:经)?(?:发布|上传|公布)|(?:发布|上传)了|(?:公開|投稿|アップロード)(?:し(?:た|まし)|され(?:た|まし)|済)",
        "publish|post|upload|push|发布|上传|公開|投稿|アップロード",
    ),
)  # fmt: skip
_CLAUSE = re.compile("(?:[.!?;](?:\\s|$)|[,\uff0c\u3002\uff01\uff1f\uff1b\u3001\n])+")
# A wish, a plan, a condition or a denial is no claim.
_OPEN = re.compile(
    r"\b(?:not|never|n't|no|wants?|wanted|wish\w*|would|should|shall|will|must|can|could|may|might|to be|needs?|ask\w*|"
    r"request\w*|plans?|planned|if|when|once|before|until|unless|whether|refused|rejected|denied|failed|pending|waits?|"
    r"waiting|nicht|soll\w*|möchte|will|wenn|bevor|kein\w*|ne|pas|si|avant|quiere|antes|debe)\b|n't\b"
    "|不|没|沒|未|想|(?<![重主])要|(?<!申)请|如果|之前|等待|是否|ない|ません|たい|ほしい|欲しい|なら|前に|予定|べき|かどうか",
    re.IGNORECASE,
)

_NAME_PART = re.compile(r"[^\W_]+")
_OVER = re.compile(
    r"\b(?:was|were|been|has|have|had|is|are|already|wurde|ist|hat|est|a été|fue)\b|已|了|た", re.IGNORECASE
)

_PASSIVE = re.compile(
    r"\b(?:was|were|been|being|is|are|got|gets|wurden?|worden|ist|sind|est|sont|été|fue|fueron|sido|è|stat[oaie])"
    r"(?:\s+(?:already|then|just|now|also|successfully|\w+ly))*\s*$",
    re.IGNORECASE,
)
_HOUSE = re.compile(r"\b(?:assistant|butler|i|we|it|system|agent|bot|ai|tool|model)\b", re.IGNORECASE)
_SOMEBODY = re.compile(
    r"\b(?:users?|he|she|they|who|sister|brother|mother|father|parents?|wife|husband|son|daughter|friend|neighbou?r|"
    r"boss|colleague|landlord|customer|client|team|company)\b",
    re.IGNORECASE,
)
_TOLD_SHARE = 0.5
_RUNS = 4
"""The place of running and executing in `_DEEDS`: any tool may be said to have run."""


class Deeds:
    """What the folded part of a talk bears out: tool results that succeeded, and what people say they did."""

    def __init__(self, prefix: Sequence[ChatMessage], old: str) -> None:
        carried = list(_successes(prefix))
        self._results = [(text, read(text)) for _, text in carried]
        self._tools = {tuple(_NAME_PART.findall(name.casefold())) for name, _ in carried if name}
        said = [str(message.get("content") or "") for message in prefix if message.get("role") == "user"]
        self._told = {number for text in (*said, old) for number, _, _ in _claims(text)}
        self._talk = read("\n".join([*map(text_of, prefix), old]))

    def false_claim(self, text: str, *, is_wish: bool = False) -> str | None:
        """The first clause that claims an act nothing bears out; None when there is none.

        A wish, such as a goal, claims nothing unless it says outright that the act is over.
        """
        for number, clause, before in _claims(text):
            if is_wish and not _OVER.search(clause):
                continue
            claim = read(clause)
            borne_out = number in self._told or self._named(number, clause) or self._shown(number, claim)
            if not borne_out and not self._of_somebody(before, claim):
                return clause
        return None

    def _shown(self, number: int, claim: Reading) -> bool:
        pattern = _DEEDS[number].shown
        return any(pattern.search(text) or len(claim.soft & result.soft) >= 2 for text, result in self._results)

    def _named(self, number: int, clause: str) -> bool:
        """Whether the clause names a tool that was carried out; one plain word names it only as what ran."""
        words = f" {' '.join(_NAME_PART.findall(clause.casefold()))} "
        return any(
            f" {' '.join(parts)} " in words and (len(parts) > 1 or number == _RUNS or " tool " in words)
            for parts in self._tools
        )

    def _of_somebody(self, before: str, claim: Reading) -> bool:
        """Whether it tells, in words of the talk, what a person did: that needs no tool to bear it out."""
        if not before.strip() or _PASSIVE.search(before) or _HOUSE.search(before):
            return False
        subject = read(before).words & self._talk.names
        told = len(claim.soft & self._talk.soft) >= _TOLD_SHARE * len(claim.soft)
        return told and bool(subject or _SOMEBODY.search(before))


def _claims(text: str) -> Iterable[tuple[int, str, str]]:
    """The acts that a text says were done, with the clause and its words before the act."""
    position = 0
    for part in [*_CLAUSE.finditer(text), None]:
        clause = text[position : part.start() if part else len(text)]
        asks = part is not None and any(mark in part[0] for mark in "?\uff1f")
        position = part.end() if part else len(text)
        if asks or _OPEN.search(clause):
            continue
        for number, deed in enumerate(_DEEDS):
            if act := deed.done.search(clause):
                yield number, clause.strip(), clause[: act.start()]


def _successes(prefix: Sequence[ChatMessage]) -> Iterable[tuple[str, str]]:
    """Every call that was carried out: the tool's name, and the call with its result."""
    calls: dict[str, tuple[str, str]] = {}
    for message in prefix:
        for call in message.get("tool_calls") or ():
            name = str((call.get("function") or {}).get("name") or "")
            calls[str(call.get("id"))] = name, text_of({"tool_calls": [call]})
        if message.get("role") == "tool":
            result = str(message.get("content") or "")
            if not message.get(FAILED) and not _FAILED.match(result):
                name, called = calls.get(str(message.get("tool_call_id")), ("", ""))
                yield name, f"{called}\n{result}"
