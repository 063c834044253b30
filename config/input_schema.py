"""Checks of a tool's input schema: valid JSON Schema 2020-12, an object, every reference inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012


def schema_faults(schema: dict[str, Any]) -> list[str]:
    """Name what keeps a schema from describing the arguments of a tool; empty when it is fine."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        return [f"is no valid JSON Schema 2020-12: {f'at {place}: ' if place else ''}{error.message[:200]}"]
    except RecursionError:
        return ["is nested too deeply"]
    faults = []
    if schema.get("type") != "object":
        faults.append("must have 'type: object'")
    keys = set(_keywords(schema))
    if {"unevaluatedProperties", "patternProperties"} <= keys:
        # Names are then searched for the patterns without a limit in time.
        faults.append("has both 'patternProperties' and 'unevaluatedProperties'; use 'additionalProperties' instead")
    registry: Registry[Any] = Registry()
    resolver = registry.resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        # Only references inside: nothing may be fetched while arguments are validated.
        try:
            if not reference.startswith("#"):
                raise ValueError(reference)
            resolver.lookup(reference)
        except (Unresolvable, ValueError):
            faults.append(f"refers to {reference!r}, which is not in this schema")
    return faults


def property_names(schema: Any) -> list[str]:
    """Give the arguments that a schema names."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return [name for name in properties if isinstance(name, str)] if isinstance(properties, dict) else []


def _keywords(node: Any) -> Iterator[str]:
    """Every key at any depth; also those that are names of arguments, which is too many and does no harm."""
    if isinstance(node, dict):
        yield from node
        for key, value in node.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _keywords(value)
    elif isinstance(node, list):
        for value in node:
            yield from _keywords(value)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
