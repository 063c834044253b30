"""The tools of a server as Butler's: named, bounded, marked as the server's words, the broken ones left out (E3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import regex  # type: ignore[import-untyped]

from butler.canonical import canonical_json
from butler.mcp.limits import MOST_SCHEMA, MOST_TOOLS
from butler.mcp.words import bad_argument, description, schema_for_model, shown_name
from butler.nesting import nested_too_deeply
from butler.redact import secret_args_of
from butler.tools.validation import compile_schema
from butler.types import Json, Obstacle, Occasion, ToolResult, ToolSpec, Verdict
from config.input_schema import schema_faults
from config.mcp_file import McpServerDefinition
from config.problems import did_you_mean

SOUND_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
Run = Callable[["Offer", Any], Any]


@dataclass(frozen=True)
class LeftOut:
    """A tool that is not offered, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Offer:
    """A tool as a server defines it; `digest` is a SHA-256 over where it comes from and all that it says of itself.

    `fits` names what is wrong with structured content, if the tool says how that looks.
    """

    name: str
    full_name: str
    description: str
    schema: Json
    digest: str
    verdict: Verdict
    destructive: bool
    fits: Callable[[Any], list[str]] | None


@dataclass(frozen=True)
class Catalog:
    """What one look at a server's tools gave."""

    offers: tuple[Offer, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def catalog_of(definition: McpServerDefinition, raws: Iterable[Any], more: str = "") -> Catalog:
    """Look through the tools that a server names.

    Args:
        raws: the tools as they came over the wire.
        more: why there may be more than these; empty when these are all.
    """
    offers: dict[str, Offer] = {}
    left_out: list[LeftOut] = []
    seen: set[str] = set()
    for raw in raws:
        name = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not name:
            left_out.append(LeftOut("?", "it has no name"))
            continue
        shown = shown_name(name)
        if name in seen:
            # Which of the two a call would reach is anybody's guess.
            offers.pop(name, None)
            left_out.append(LeftOut(shown, "the server names it twice"))
            continue
        seen.add(name)
        if len(offers) >= MOST_TOOLS:
            more = more or f"a server may bring {MOST_TOOLS} tools"
            break
        found = _offer(definition, name, raw)
        if isinstance(found, Offer):
            offers[name] = found
        else:
            left_out.append(LeftOut(shown, found))
    if more:
        left_out.append(LeftOut("others", more))
    for name in definition.tools:
        if name not in seen and not more:
            left_out.append(LeftOut(name, f"mcp.json speaks of it, the server has none{did_you_mean(name, seen)}"))
    return Catalog(tuple(offers[name] for name in sorted(offers)), tuple(left_out))


def _offer(definition: McpServerDefinition, name: str, raw: Mapping[str, Any]) -> Offer | str:
    """The tool, or why it is left out."""
    rule = definition.tools.get(name)
    if rule is not None and not rule.enabled:
        return "mcp.json switches it off"
    full = f"{definition.name}__{name}"
    if not SOUND_NAME.fullmatch(full):
        what = "is longer than 64 characters" if len(full) > 64 else "has characters that models don't take"
        return f"its name with the server's {what}; allowed are letters, digits, '_' and '-'"
    if nested_too_deeply(raw):
        return "its definition is nested too deeply"
    schema, described = raw.get("inputSchema"), raw.get("description")
    if not isinstance(schema, dict):
        return "it says nothing of its arguments (inputSchema)"
    try:
        text = canonical_json({"from": definition.origin, "tool": _meaning(raw)})
        size = len(canonical_json(schema))
    except ValueError:
        return "its definition holds numbers that are no JSON"
    if size > MOST_SCHEMA:
        return f"its schema has {size} characters, more than {MOST_SCHEMA}"
    if faults := schema_faults(schema) or _bad_patterns(schema):
        return f"its schema {'; '.join(faults)[:300]}"
    if unclear := bad_argument(schema):
        return f"the name of its argument {unclear!r} can't be shown as it is"
    output = raw.get("outputSchema")
    hints = raw.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    own = rule.verdict if rule is not None else None
    return Offer(
        name=name, full_name=full, description=description(definition.name, described),
        schema=schema_for_model(schema),
        digest=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        verdict=own or definition.verdict or "approve",
        # A hint may only tighten: one that says "reads only" changes nothing (A3).
        destructive=hints.get("destructiveHint") is True and own is None,
        fits=compile_schema(output) if isinstance(output, dict) and _usable(output) else None,
    )  # fmt: skip


def _usable(output: Json) -> bool:
    return len(canonical_json(output)) <= MOST_SCHEMA and not (schema_faults(output) or _bad_patterns(output))


def spec_of(definition: McpServerDefinition, offer: Offer, run: Callable[[Any], Any], obstacle: Obstacle) -> ToolSpec:
    """The tool as the model, the policy and the ledger see it."""

    async def call(invocation: Any) -> ToolResult:
        result: ToolResult = await run(invocation)
        return result

    def asks(occasion: Occasion) -> str:
        return f"The server {definition.name!r} says that this tool destroys things, and nobody allowed this very tool."

    return ToolSpec(
        name=offer.full_name, description=offer.description, input_schema=offer.schema, run=call, governed=True,
        source=definition.source, digest=offer.digest, verdict=offer.verdict, obstacle=obstacle,
        secret_args=secret_args_of(offer.schema), own_ruling=asks if offer.destructive else None,
    )  # fmt: skip


def _meaning(raw: Mapping[str, Any]) -> Json:
    """All of a definition that says what the tool is; `_meta` and pictures don't."""
    return {key: value for key, value in raw.items() if key not in ("_meta", "icons")}


def _bad_patterns(schema: Any) -> list[str]:
    """Patterns that can't be searched for; they would fail every call."""
    faults = []
    for pattern in _patterns(schema):
        try:
            regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError):
            faults.append(f"has the pattern {pattern[:80]!r}, which is none")
    return faults


def _patterns(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            elif key == "patternProperties" and isinstance(value, dict):
                yield from value
                yield from _patterns(list(value.values()))
            elif key not in ("const", "enum", "default", "examples"):
                yield from _patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from _patterns(value)
