"""Arguments against a tool's schema, in sentences; no schema and no argument can hang or crash it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any

import regex  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from butler.canonical import canonical_json
from butler.nesting import MOST_LEVELS, nested_too_deeply
from butler.types import Json
from config.problems import did_you_mean

MAX_BYTES = 1 << 20
MAX_PROBLEMS = 10
MAX_MESSAGE = 300
PATTERN_SECONDS = 0.2
CHECK_SECONDS = 2.0
"""For all of a call: a schema that refers to itself twice doubles the work with every level."""
TOO_LONG = "the arguments could not be checked in time"
TOO_DEEP = f"the arguments are nested more than {MOST_LEVELS} levels deep"

_NAMES_ONLY = frozenset({"required", "additionalProperties", "dependentRequired", "unevaluatedProperties"})
"""Keywords whose messages repeat names of arguments but never their values."""


_until: ContextVar[float] = ContextVar("butler_check_until", default=math.inf)


def _found(pattern: str, text: str) -> bool:
    """Search with a limit, while other threads go on: a pattern without care can take hours on a short text."""
    if time.monotonic() > _until.get():
        raise ValidationError(TOO_LONG)
    try:
        return regex.search(pattern, text, timeout=PATTERN_SECONDS, concurrent=True) is not None
    except TimeoutError:
        raise ValidationError(f"could not be matched with {pattern!r} in time") from None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not _found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """As the library's, which searches for the patterns without a limit."""
    if not validator.is_type(instance, "object") or allowed is True:
        return
    patterns = schema.get("patternProperties", {})
    known = schema.get("properties", {})
    extras = [name for name in instance if name not in known and not any(_found(one, name) for one in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(instance[name], allowed, path=name)
    elif extras:
        named, verb = ", ".join(map(repr, sorted(extras))), "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({named} {verb} unexpected)")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """As the library's, which compares every two items."""
    if not wanted or not validator.is_type(instance, "array"):
        return
    if len({canonical_json(_number_as_one(item)) for item in instance}) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _number_as_one(value: Any) -> Any:
    """1.0 is the same number as 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_number_as_one(item) for item in value]
    return {key: _number_as_one(item) for key, item in value.items()} if isinstance(value, dict) else value


def _in_time(keyword: Any) -> Callable[[Any, Any, Any, Any], Iterator[ValidationError]]:
    """The keyword, ended when the time for the whole check is over."""

    def limited(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if time.monotonic() > _until.get():
            raise ValidationError(TOO_LONG)
        yield from keyword(validator, value, instance, schema) or ()

    return limited


_BRANCHING = (
    "unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "prefixItems", "propertyNames",
    "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "items", "properties", "contains",
)  # fmt: skip
_KEYWORDS = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "uniqueItems": _unique,
    **{name: _in_time(Draft202012Validator.VALIDATORS[name]) for name in _BRANCHING},
}
_Validator = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


def compile_schema(schema: Json, secret: frozenset[str] = frozenset()) -> Callable[[Any], list[str]]:
    """Give a function that names what is wrong with arguments; an empty list when they are fine.

    Args:
        secret: arguments whose values must not be repeated in the sentences.
    """
    # An empty registry: a reference out of the schema fails instead of being fetched.
    registry: Registry[Any] = Registry()
    validator = _Validator(schema, registry=registry)
    names = list(schema.get("properties", {}))

    def problems(args: Any) -> list[str]:
        _until.set(time.monotonic() + CHECK_SECONDS)
        if not isinstance(args, dict):
            return ["the arguments must be a JSON object"]
        if nested_too_deeply(args):
            return [TOO_DEEP]
        try:
            size = len(canonical_json(args).encode("utf-8"))
            if size > MAX_BYTES:
                return [f"the arguments are larger than {MAX_BYTES >> 20} MiB"]
            errors = islice(validator.iter_errors(args), MAX_PROBLEMS)
            return [_sentence(error, names, secret) for error in errors]
        except RecursionError:
            return ["the arguments can't be checked: the tool's schema goes too deep for them"]
        except ValidationError as error:
            return [error.message[:MAX_MESSAGE]]
        except Unresolvable as error:
            return [f"the tool's schema refers to {error.ref!r}, which can't be found"]
        except (TypeError, ValueError) as error:
            return [f"the arguments are not JSON: {type(error).__name__}"]

    return problems


def _sentence(error: ValidationError, names: list[str], secret: frozenset[str]) -> str:
    place = ""
    for part in error.absolute_path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    if error.absolute_path and error.absolute_path[0] in secret:
        return f"{place}: does not fit the schema ({error.validator})"
    if not place and _holds(error.instance, secret) and error.validator not in _NAMES_ONLY:
        return f"taken together they do not fit the schema ({error.validator})"
    hint = ""
    if error.validator == "additionalProperties" and not place and isinstance(error.instance, dict):
        strangers = [name for name in error.instance if name not in names]
        hint = did_you_mean(strangers[0], names) if strangers else ""
    message = error.message if len(error.message) <= MAX_MESSAGE else f"{error.message[:MAX_MESSAGE]}…"
    return f"{place}: {message}{hint}" if place else f"{message}{hint}"


def _holds(instance: Any, secret: frozenset[str]) -> bool:
    """Whether a message that repeats the instance would repeat a secret argument's value."""
    return isinstance(instance, dict) and not secret.isdisjoint(instance)
