"""Orders to the scripted model inside the user's own text, so that parallel load needs no control calls.

``[[say TEXT]]`` ``[[tokens N]]`` ``[[call NAME {json}]]`` (one or several) ``[[badcall NAME TEXT]]``
``[[delay S]]`` ``[[gap S]]`` ``[[hold GATE]]`` ``[[hold GATE N]]`` ``[[empty]]`` ``[[json]]``, and
faults: ``[[status CODE TIMES RETRY_AFTER]]`` ``[[cut N TIMES]]`` ``[[error N TIMES]]`` ``[[hang
TIMES]]``. TIMES is how many requests with this very text meet the fault (default: all). ``[[then]]``
parts the text into phases, one for each model call of the turn; a phase with ``[[rounds N]]`` serves N
calls (0: all to come).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

from tests.support.replies import Call, Reply

_decoder = json.JSONDecoder()


def reply_for(text: str, call_number: int, seen: Counter[str]) -> Reply | None:
    """Give the reply that the text orders for the n-th model call of its turn; None when it orders nothing.

    Args:
        text: the last user message.
        call_number: 0 for the first model call after that message.
        seen: how often each fault was met already; counted up here.
    """
    position = 0
    for phase in text.split("[[then]]"):
        found = _directives(phase) if "[[" in phase else ()
        rounds = next((int(arg) for name, arg in found if name == "rounds"), 1)
        if rounds == 0 or call_number < position + rounds:
            return _read(phase, seen)
        position += rounds
    return None


def _directives(phase: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = phase.find("[[")
    while at >= 0:
        body = phase[at + 2 :]
        word = body.split("]]", 1)[0].split(" ", 1)[0]
        if word == "call":
            name, _, rest = body[len("call ") :].partition(" ")
            _, end = _decoder.raw_decode(rest)
            found.append((word, f"{name} {rest[:end]}"))
            at = phase.find("[[", at + 2 + len("call ") + len(name) + 1 + end)
        else:
            inside = body.split("]]", 1)[0]
            found.append((word, inside[len(word) + 1 :]))
            at = phase.find("[[", at + 2 + len(inside))
    return found


def _read(phase: str, seen: Counter[str]) -> Reply | None:
    reply = Reply()
    orders = 0
    for name, arg in _directives(phase):
        orders += 1
        words = arg.split()
        match name:
            case "say":
                reply = replace(reply, text=arg)
            case "empty":
                reply = replace(reply, text="")
            case "tokens":
                reply = replace(reply, tokens=int(arg))
            case "call" | "badcall":
                tool, _, arguments = arg.partition(" ")
                reply = replace(reply, calls=(*reply.calls, Call(tool, arguments)))
            case "delay":
                reply = replace(reply, delay=float(arg))
            case "gap":
                reply = replace(reply, gap=float(arg))
            case "hold" if len(words) == 1:
                reply = replace(reply, hold=words[0])
            case "hold":
                reply = replace(reply, hold_after=(*reply.hold_after, (int(words[1]), words[0])))
            case "status" if _due(phase, name, words[1:2], seen):
                reply = replace(reply, status=int(words[0]), retry_after=words[2] if len(words) > 2 else None)
            case "cut" if _due(phase, name, words[1:2], seen):
                reply = replace(reply, cut=int(words[0]))
            case "error" if _due(phase, name, words[1:2], seen):
                reply = replace(reply, error_event=True, cut=int(words[0]))
            case "hang" if _due(phase, name, words[0:1], seen):
                reply = replace(reply, hang=True)
            case "json":
                reply = replace(reply, plain_json=True)
            case "status" | "cut" | "error" | "hang" | "rounds":
                pass
            case _:
                raise ValueError(f"unknown directive {name!r}")
    return reply if orders else None


def _due(phase: str, fault: str, times: list[str], seen: Counter[str]) -> bool:
    key = f"{fault} {phase}"
    seen[key] += 1
    return not times or seen[key] <= int(times[0])
