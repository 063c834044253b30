"""What a caller expects of a task: read strictly, and added to the maid's own checks (D1, D8)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from butler.errors import ButlerError
from butler.types import Json
from config.maid_profile import Allowed, ProfileEntry, read_profile
from config.maid_types import MaidRegistryFile, VerificationProfile

T = TypeVar("T")


def parse_profile(value: Mapping[str, Any], registry: MaidRegistryFile, folder: Path) -> VerificationProfile:
    """Read the `expect` of a call; the caller can't allow what the registry does not.

    Args:
        value: a JSON object as in maid_registry.yml.
        folder: that of maid_registry.yml, where scripts of allowed commands may lie.

    Raises:
        ButlerError: ``invalid_request``, with every fault.
    """
    profile, faults = read_profile(value, Allowed(registry.allowed_commands, registry.allowed_hosts, folder))
    if faults:
        raise ButlerError("invalid_request", "What is expected can't be checked: " + "; ".join(faults))
    return profile


def profile_schema() -> Json:
    """The JSON Schema of `expect`, without references, for the input schema of a tool."""
    schema = ProfileEntry.model_json_schema()
    definitions = schema.pop("$defs", {})
    inlined = _inlined(schema, definitions)
    return {"type": "object", **{key: value for key, value in inlined.items() if key != "title"}}


def merged(maid: VerificationProfile, expect: VerificationProfile | None) -> VerificationProfile:
    """All checks of both: the caller adds to the maid's own and takes none away.

    There is one server: the maid's, or the caller's where the maid has none.
    """
    if expect is None:
        return maid
    own = maid if maid.start is not None else expect
    return VerificationProfile(
        file_checks=_all(maid.file_checks, expect.file_checks),
        test_commands=_all(maid.test_commands, expect.test_commands),
        http_checks=_all(maid.http_checks, expect.http_checks),
        exact_output=_all(maid.exact_output, expect.exact_output),
        start=own.start,
        ready_within=own.ready_within,
    )


def _all(mine: tuple[T, ...], theirs: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*mine, *theirs)))


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _inlined({**definitions[reference.removeprefix("#/$defs/")], **rest}, definitions)
    # Titles only repeat the names of keys; a property of that name would be a mapping.
    return {
        key: _inlined(value, definitions)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
