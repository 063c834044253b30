"""What the words of an agent are signs of; words only ever help to name a failure, never to call work done (D7)."""

from __future__ import annotations

import re

END = 4 * 1024
"""Characters at the end of a text that are looked at, unless told otherwise."""

_PROVIDER = re.compile(
    r"ran into this error|rate limit exceeded|too many requests|network error|server error|service unavailable"
    r"|bad gateway|overloaded_error|authentication (?:required|failed|error)|invalid api key|incorrect api key"
    r"|credits?[_ ]exhausted|insufficient (?:credits?|quota|balance)|payment required|connection (?:refused|reset)"
    r"|retry(?:ing)? (?:in|after|attempt|finished)|could not connect|error sending request|\bAPI error\b",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"reached the maximum number of (?:actions|turns|steps)|maximum (?:number of )?(?:turns|steps|retry attempts)"
    r"|context (?:limit|length|window)|context ?overflow|token limit|max_tokens|response was truncated",
    re.IGNORECASE,
)
_LOOP = re.compile(r"loop detect|potential loop|repetition limit|repeated the same tool", re.IGNORECASE)
_PRINTED_CALL = re.compile(
    r"<tool_call\b|</?function[=_> ]|<function_calls>|\[TOOL_CALLS\]|<\|tool|```tool_(?:code|call)|<invoke name="
    r"|\{\s*\"(?:name|tool)\"\s*:\s*\"[^\"]{1,80}\"\s*,\s*\"(?:arguments|parameters|args|input)\"\s*:",
)
_OPEN_ITEM = re.compile(r"^\s*[-*]\s\[ \]\s", re.MULTILINE)
_QUESTION = re.compile(
    r"(?:shall|should|may|can) I (?:proceed|continue|go ahead)|would you like|do you want|please (?:confirm|clarify)"
    r"|let me know (?:if|how|which|what|whether)|waiting for your|could you (?:clarify|confirm|provide)",
    re.IGNORECASE,
)
_LEAVE = re.compile(
    r"(?:shall|should|may|can|could) (?:I|we)\b|proceed|go ahead|continue|confirm|clarify|which|where|how\b|want me to",
    re.IGNORECASE,
)
_CLAIM = re.compile(
    r"\b(?:done|completed?|created|implemented|fixed|wrote|written|added|updated|finished|refactored|formatted"
    r"|succe(?:ss|eded|ssfully)|all (?:the )?tests (?:now )?pass(?:ed)?|is in place|have been made)\b"
    r"|完成|已创建|已修复|成功|しました|完了|했습니다",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|unable to|not able to|failed to|was not|wasn't|have not|haven't|did not"
    r"|didn't|not (?:yet )?(?:done|complete|finished))\b",
    re.IGNORECASE,
)
_NOT_FOUND = (
    re.compile(r"(?:^|[\s:])(?!error:|file:|module:|\d+:)([\w.+-]{1,64}): (?:command )?not found", re.MULTILINE | re.I),
    re.compile(r"command not found: ([\w.+-]{1,64})"),
    re.compile(r"No such file or directory: '([\w+-]{1,64})'"),
    re.compile(r"there is no program '?([\w.+-]{1,64})", re.IGNORECASE),
    re.compile(r"spawn ([\w.+-]{1,64}) ENOENT"),
)
_EXIT_127 = re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?[:= ]+127\b", re.IGNORECASE)


def provider_error(text: str) -> str | None:
    """The words by which an agent tells of its provider's trouble at the end of a text."""
    return _found(_PROVIDER, text[-END:])


def limit(text: str) -> str | None:
    """The words by which an agent tells that it came to a limit of its own."""
    return _found(_LIMIT, text[-END:])


def loop(text: str) -> str | None:
    """The words by which an agent tells that it stopped its own loop."""
    return _found(_LOOP, text[-END:])


def printed_call(text: str) -> str | None:
    """The beginning of a tool call that was printed as text and never made."""
    return _found(_PRINTED_CALL, text[-END:])


def open_items(text: str) -> int:
    """How many items of a list are not ticked off."""
    return len(_OPEN_ITEM.findall(text[-END:]))


def question(text: str) -> str | None:
    """The question that a text ends with."""
    end = text.rstrip().rstrip("*_\"'`)”» ").rstrip()[-400:]
    if not end:
        return None
    last = re.split(r"(?<=[.!。\uff01\n])\s*", end)[-1].strip() or end
    if end.endswith(("?", "\uff1f")) or _QUESTION.search(last):
        return last[-200:]
    return None


def asks_leave(words: str) -> bool:
    """Whether a question is one that the work waits for, not a polite word after it."""
    return _LEAVE.search(words) is not None


def claims_done(text: str) -> bool:
    """Whether the end of a text says that the work is done and takes nothing of it back."""
    end = text[-2_000:]
    return _CLAIM.search(end) is not None and _DENIAL.search(end) is None


def missing_tool(text: str) -> str | None:
    """The name of a program that was not there, the last one told of; `?` where only exit code 127 tells it."""
    end = text[-END:]
    last = max((match for kind in _NOT_FOUND for match in kind.finditer(end)), key=lambda m: m.start(), default=None)
    if last is not None:
        return last[1]
    return "?" if _EXIT_127.search(end) else None


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[0][:200] if match else None
