"""The text of notifications: the whole action in plain lines that nothing in it can break or imitate (B7)."""

from __future__ import annotations

import re

from butler.canonical import canonical_json
from butler.clock import stamp
from butler.types import Json
from butler.unseen import is_unseen
from service.notify.sender import Message, size

MOST_REPLY_CHARACTERS = 3000
LEAST_ARGUMENTS = 40
_LURES = re.compile(r"\](?=\()|@(?=everyone|here|channel|all|room)|<(?=[@!#a-z])", re.IGNORECASE)
"""What some services turn into a link, a call to everybody or markup, even in plain text."""
_JOINER = "\u2060"


def approval_message(
    shown: Json, *, limit: int, link: str | None = None, name: str = "", escalated: bool = False
) -> Message:
    """The message that asks `name` for a decision.

    Args:
        shown: the Approval as http-api has it: arguments whole, secrets masked.
        limit: how many characters the service takes; arguments beyond it are left out, and the message says so.
        link: the signed link, for those who may use one.
    """
    tool, risk, code = shown["tool"], shown["risk"], shown["code"]
    head = [f"{shown['requested_by']} asks to run {tool}. Risk: {risk}."]
    if escalated:
        head.append("Nobody has answered so far, so you are asked too.")
    if shown["execution"] == "unknown":
        head.append("It was started before and its outcome is unknown: approving runs it again.")
    head += [f"Reason: {_plain(shown['reason'])}", f"Rule: {_plain(shown['rule'])}", f"Expires: {_expiry(shown)}"]
    if (needed := shown.get("approvals_needed") or 1) > 1:
        names = ", ".join(str(one["by"] if isinstance(one, dict) else one) for one in shown.get("approved_by") or ())
        head.append(f"{needed} people have to approve. So far: {names or 'nobody'}.")
    if link is not None:
        head.append(f"Look and decide as {name} (works once; opening decides nothing): {link}")
    head.append(f"In a chat with Butler: /approve {code} or /deny {code} REASON")
    head.append(f"Fingerprint: {shown['fingerprint']}")
    lines = [f"{_name(key)} = {json_text(value)}" for key, value in shown["args"].items()]
    args = "\n".join(lines) or "(none)"
    title = f"Approval needed: {tool} ({risk})"
    body = "\n".join([*head, "Arguments:", args])
    return Message(title, body if size(body) <= limit else _shortened(head, args, limit, link))


def _shortened(head: list[str], args: str, limit: int, link: str | None) -> str:
    """The message with as much of the arguments as fits, and that it is not all said before them."""
    where = "the page behind the link shows all" if link else "/approvals shows all"
    total = len(args)
    notice = f"SHORTENED: the arguments have {total} characters, too many for this service; {where}."
    start = "\n".join([*head, notice, "Arguments, beginning:", ""])
    room = limit - size(start) - 1
    if room >= LEAST_ARGUMENTS:
        while size(args) > room:
            args = args[: max(0, len(args) - max(1, (size(args) - room) // 5))]
        return f"{start}{args}…"
    if not link:
        return _cut(f"{head[0]} {head[-2]} SHORTENED: {where}.", limit)
    # A text message: who, what and the link, with nothing that could be taken for the whole.
    return _cut(f"{head[0]} SHORTENED, see all: {link.strip()}", max(limit, len(link) + 40))


def _cut(text: str, limit: int) -> str:
    return text if size(text) <= limit else text[: max(limit - 1, 0)] + "…"


def reply_message(run: Json, *, limit: int) -> Message:
    """The message that tells a requester how the turn ended; the reply stands behind marks, as quoted text."""
    title = "Butler has answered" if run["status"] == "done" else "Butler could not finish"
    asked = line_text(" ".join(str(run["message"]).split()))
    head = f"You asked: {asked if len(asked) <= 200 else asked[:199] + '…'}"
    reply = str(run["reply"]) or (run["error"] or {}).get("detail", "") or "(no text)"
    room = min(limit - size(head) - 100, MOST_REPLY_CHARACTERS)
    quoted = "\n".join(f"> {line_text(line)}" for line in reply.splitlines())
    if size(quoted) > room:
        while size(quoted) > max(room, 0):
            quoted = quoted[: max(0, len(quoted) - max(1, (size(quoted) - room) // 5))]
        quoted += f"…\nSHORTENED: the reply has {len(reply)} characters; the thread shows all."
    return Message(title, f"{head}\n{quoted}")


def trial_message(name: str, base: str) -> Message:
    """What `butler notify test` sends."""
    return Message("Butler: a test", f"Notifications for {name} arrive here. Links will begin with {base}.")


def json_text(value: object) -> str:
    """A value as JSON in one line; what is invisible, or could be taken for markup, is written as an escape.

    It still reads back as exactly the same value.
    """
    return _LURES.sub(lambda found: _escaped(found.group()), seen(canonical_json(value)))


def seen(text: str, keep: str = "") -> str:
    """A text with escapes in place of what can't be seen, except the characters of `keep`."""
    return "".join(_escaped(char) if is_unseen(char) and char not in keep else char for char in text)


def line_text(text: str) -> str:
    """Foreign text for one line: nothing invisible, and no markup that a service would act on."""
    text = "".join(" " if is_unseen(char) else char for char in text)
    return _LURES.sub(lambda found: found.group() + _JOINER, text)


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else json_text(name)


def _plain(text: object) -> str:
    return line_text(str(text))


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _expiry(shown: Json) -> str:
    if shown["expires_at"] is None:
        return "never"
    return f"{moment(shown['expires_at'])} (now {moment(stamp())})"


def moment(text: str) -> str:
    """A time as people read it."""
    return f"{text[:10]} {text[11:19]} UTC"
