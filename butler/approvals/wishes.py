"""A wish for a grant, checked against the call that the person saw: never wider without saying so (E3)."""

from __future__ import annotations

import re
from typing import Any, Literal

from butler.approvals.actions import Action
from butler.approvals.grants import EXACTLY, GrantWish, Patterns, Terms, args_covered, bound_to
from butler.approvals.judge import Judge
from butler.argtext import text_of
from butler.errors import ButlerError
from butler.globs import has_literal
from butler.people import Principal
from butler.types import Json, ToolSpec
from config.problems import did_you_mean

_SPECIAL = re.compile(r"([*?\[])")


def literal(text: str) -> str:
    """The glob that matches this text alone."""
    return _SPECIAL.sub(r"[\1]", text)


def terms_of(action: Action, wish: GrantWish, person: Principal, judge: Judge, *, insist: bool = True) -> Terms:
    """Check a wish beside the approval of `action`.

    Args:
        insist: raise also when an admin or the confirmation is missing; otherwise that is in `Terms.needs`.

    Raises: ButlerError ``invalid_request`` for patterns that don't fit the call, or a wide grant without `confirm`
    (extra `needs`); ``forbidden`` for a grant that needs an admin.
    """
    spec = grantable(action, judge)
    args = action.shown_args
    secret = judge.secret_args(action.tool, args)
    if wish.args is None:
        if secret:
            names = ", ".join(sorted(secret))
            raise ButlerError(
                "invalid_request",
                f"A grant can't hold the secret arguments ({names}); give `args` with patterns for the others.",
            )
        patterns, closed = exactly(args, spec), wish.closed is not False
    else:
        patterns, closed = wish.args, bool(wish.closed)
        _check_patterns(spec, patterns, closed, args, secret)
    wide = action.risk != "safe" and not (any(map(_restricts, patterns.values())) or (closed and not patterns))
    needs = _needs(wish, person, wide=wide)
    if insist and needs:
        _refuse(wish, needs)
    return Terms(
        wish.scope, patterns, closed, wish.expires_in, wish.uses, wide, needs, note_on(action, person, judge),
        bound_to(spec),
    )  # fmt: skip


def exact(args: Json) -> Patterns:
    """Patterns that match exactly these arguments."""
    return {name: pattern_of(value) for name, value in args.items()}


def exactly(args: Json, spec: ToolSpec) -> Patterns:
    """As `exact`, but where the schema leaves the type open, ``1`` must not let ``"1"`` pass: the value itself."""
    properties = spec.input_schema.get("properties", {})
    return {
        name: pattern_of(value) if _type_is_fixed(value, properties.get(name)) else {EXACTLY: value}
        for name, value in args.items()
    }


def _type_is_fixed(value: Any, schema: Any) -> bool:
    """Whether the schema of an argument takes no value of another type that reads alike as text."""
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return False
    return not isinstance(value, list) or _type_is_fixed("", schema.get("items"))


def pattern_of(value: Any) -> Any:
    """The pattern of one exact value: a list of texts stays a list, one glob for each item."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [literal(item) for item in value]
    return literal(text_of(value))


def note_on(action: Action, person: Principal, judge: Judge) -> str | None:
    """What the giver should know: a grant that changes nothing says so."""
    rule = judge.keeps_asking(action.tool, action.shown_args)
    if rule is not None:
        return f"The rule {rule!r} keeps asking about calls like this one; a grant counts only where no rule matches."
    if not person.is_admin:
        return "Where no rule matches an admin is asked, and only the grants of admins count there."
    return None


def grantable(action: Action, judge: Judge) -> ToolSpec:
    """The tool, if a grant may go with the approval at all. Raises ButlerError ``invalid_request``."""
    spec = judge.tool(action.tool)
    if spec is None:
        raise ButlerError("invalid_request", f"The tool {action.tool!r} no longer exists; leave the grant out.")
    if spec.digest != action.tool_digest:
        raise ButlerError(
            "invalid_request",
            f"The definition of {action.tool!r} has changed since this was asked; leave the grant out. "
            "You will be asked again about what the tool does now.",
        )
    if action.approvals_needed > 1:
        raise ButlerError(
            "invalid_request", f"{action.approvals_needed} people have to approve this each time; leave the grant out."
        )
    return spec


def _check_patterns(spec: ToolSpec, patterns: Patterns, closed: bool, args: Json, secret: set[str]) -> None:
    """Raises ButlerError ``invalid_request`` unless the patterns speak of this call."""
    known = sorted({*spec.input_schema.get("properties", {}), *args})
    for name in patterns:
        if name not in known:
            detail = f"{spec.name!r} has no argument {name!r}{did_you_mean(name, known)}."
            raise ButlerError("invalid_request", f"A pattern of the grant fits nothing: {detail}")
        if name in secret or name in spec.secret_args:
            raise ButlerError("invalid_request", f"The argument {name!r} is secret; a grant can't name it.")
    if closed and (rest := sorted(args.keys() - patterns.keys())):
        raise ButlerError(
            "invalid_request", f"A closed grant names all arguments; this call also has {', '.join(rest)}."
        )
    wrong = [name for name, pattern in patterns.items() if not args_covered({name: pattern}, False, args)]
    if wrong:
        raise ButlerError(
            "invalid_request",
            f"The patterns of the grant don't match the call that you approve: {', '.join(wrong)}. "
            "A grant covers calls like the one that you saw.",
        )


def _restricts(pattern: Any) -> bool:
    """Whether a pattern rules anything out that an argument would plausibly be."""
    if isinstance(pattern, dict):
        return True
    texts = pattern if isinstance(pattern, list) else [pattern]
    return any(map(has_literal, texts))


def _needs(wish: GrantWish, person: Principal, *, wide: bool) -> tuple[Literal["admin", "confirm"], ...]:
    needs: list[Literal["admin", "confirm"]] = []
    if wide or wish.scope == "everyone":
        if not person.is_admin:
            needs.append("admin")
        if not wish.confirm:
            needs.append("confirm")
    return tuple(needs)


def _refuse(wish: GrantWish, needs: tuple[str, ...]) -> None:
    what = "for everyone" if wish.scope == "everyone" else "that limits no argument"
    if "admin" in needs:
        raise ButlerError("forbidden", f"Only an admin may give a grant {what}; choose a narrower one.")
    raise ButlerError(
        "invalid_request", f"A grant {what} needs `confirm: true`; look first at what it would have covered.",
        needs=list(needs),
    )  # fmt: skip
