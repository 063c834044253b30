"""The tools of a server as Butler's: named, bounded, marked as the server's words, the broken ones left out (E3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from butler.canonical import canonical_json
from butler.mcp.limits import MOST_LOOKED_AT, MOST_SCHEMA, MOST_SCHEMAS, MOST_TOOLS
from butler.mcp.patterns import bad_patterns
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
    fits: Callable[[Any], list[str]] | None = field(compare=False)


@dataclass(frozen=True)
class Catalog:
    """What one look at a server's tools gave."""

    offers: tuple[Offer, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def catalog_of(
    definition: McpServerDefinition, raws: Sequence[Any], more: str = "", known: Catalog | None = None
) -> Catalog:
    """Look through the tools that a server names.

    Args:
        raws: the tools as they came over the wire.
        more: why there may be more than these; empty when these are all.
        known: what the last look gave; a definition that has not changed is not looked through again.
    """
    room = _Room({offer.digest: offer for offer in (known.offers if known else ())})
    offers: dict[str, Offer] = {}
    left_out: list[LeftOut] = []
    seen: set[str] = set()
    for raw in raws[:MOST_LOOKED_AT]:
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
        found = _offer(definition, name, raw, room)
        if isinstance(found, Offer):
            offers[name] = found
        else:
            left_out.append(LeftOut(shown, found))
    else:
        if len(raws) > MOST_LOOKED_AT:
            more = more or f"of {len(raws)} tools only the first {MOST_LOOKED_AT} are looked at"
    if more:
        left_out.append(LeftOut("others", more))
    for name in definition.tools:
        if name not in seen and not more:
            left_out.append(LeftOut(name, f"mcp.json speaks of it, the server has none{did_you_mean(name, seen)}"))
    return Catalog(tuple(offers[name] for name in sorted(offers)), tuple(left_out))


@dataclass
class _Room:
    """The offers of the last look by their digests, and how many characters of schemas may still be looked through."""

    known: Mapping[str, Offer]
    left: int = field(default_factory=lambda: MOST_SCHEMAS)


def _offer(definition: McpServerDefinition, name: str, raw: Mapping[str, Any], room: _Room) -> Offer | str:
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
    schema, output, described = raw.get("inputSchema"), raw.get("outputSchema"), raw.get("description")
    if not isinstance(schema, dict):
        return "it says nothing of its arguments (inputSchema)"
    try:
        text = canonical_json({"from": definition.origin, "tool": _meaning(raw)})
        size, extra = len(canonical_json(schema)), len(canonical_json(output))
    except ValueError:
        return "its definition holds numbers that are no JSON"
    if size > MOST_SCHEMA:
        return f"its schema has {size} characters, more than {MOST_SCHEMA}"
    judged = output if isinstance(output, dict) and extra <= MOST_SCHEMA else None
    room.left -= size + (extra if judged else 0)
    if room.left < 0:
        return f"the schemas of the server's tools have more than {MOST_SCHEMAS} characters all together"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    own = rule.verdict if rule is not None else None
    if (old := room.known.get(digest)) is not None and old.name == name:
        return old
    if faults := schema_faults(schema) or bad_patterns(schema):
        return f"its schema {'; '.join(faults)[:300]}"
    if unclear := bad_argument(schema):
        return f"the name of its argument {unclear!r} can't be shown as it is"
    hints = raw.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    return Offer(
        name=name, full_name=full, description=description(definition.name, described),
        schema=schema_for_model(schema),
        digest=digest,
        verdict=own or definition.verdict or "approve",
        # A hint may only tighten: one that says "reads only" changes nothing (A3).
        destructive=hints.get("destructiveHint") is True and own is None,
        fits=compile_schema(judged) if judged and not (schema_faults(judged) or bad_patterns(judged)) else None,
    )  # fmt: skip


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
