"""The whole environment of an attempt: named variables and what Butler sets, nothing inherited (D11).

Later entries win: Butler's own, the preset of the kind, `env` of the registry row, the provider's address and key,
`variables` of the row. Only ``MAID_RUN`` can't be set by a row.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from butler.maids.launching.processes import MARK
from butler.maids.provider import ProviderAccess
from config.maid_types import MaidDefinition, MaidKind

GIT = MappingProxyType(
    {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GIT_ALLOW_PROTOCOL": "none",  # nothing is pushed or fetched before anybody has approved it
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Butler's maid",
        "GIT_CONFIG_KEY_1": "user.email",
        "GIT_CONFIG_VALUE_1": "maid@localhost",
        "GIT_CONFIG_KEY_2": "commit.gpgSign",  # there is no key, and nobody to type its passphrase
        "GIT_CONFIG_VALUE_2": "false",
        "GIT_CONFIG_KEY_3": "gc.auto",  # it would go on in the background
        "GIT_CONFIG_VALUE_3": "0",
    }
)
"""Git never asks, reads no configuration of the person, reaches no other repository, and can commit all the same."""

PRESETS: Mapping[MaidKind, Mapping[str, str]] = MappingProxyType(
    {
        "goose": {
            "GOOSE_PROVIDER": "{goose_provider}",
            "GOOSE_MODEL": "{model}",
            "GOOSE_MODE": "{goose_mode}",
            "GOOSE_PATH_ROOT": "{home}/goose",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_DISABLE_SESSION_NAMING": "true",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "OPENAI_HOST": "{address}",
            "OPENAI_API_KEY": "{key}",
        }
    }
)
"""What a kind of agent needs, with the names of `_facts`; a variable whose fact is empty is left out."""


@dataclass(frozen=True)
class AttemptEnvironment:
    """All variables of an attempt, and the names in `env` (or of the provider's key) that are not set."""

    variables: Mapping[str, str]
    missing: tuple[str, ...] = ()


def attempt_environment(
    maid: MaidDefinition,
    *,
    attempt_id: str,
    tree: Path,
    home: Path,
    temp: Path,
    environ: Mapping[str, str],
    access: ProviderAccess | None = None,
) -> AttemptEnvironment:
    """Build the environment of one attempt.

    Args:
        tree: the working directory; Git looks for no repository above it.
        home, temp: the attempt's own folders.
        environ: the server's variables, from which named ones are taken.
        access: what the proxy gives; None for a maid without `endpoint`, or one that is spoken to directly.

    Raises:
        ValueError: the maid wants the proxy and there is no access.
    """
    endpoint = maid.endpoint
    hidden = {endpoint.api_key_env} if endpoint is not None and endpoint.proxy else set()
    named = {name: environ[name] for name in maid.env if name in environ and name not in hidden}
    missing = [name for name in maid.env if name not in environ]
    address, key = _provider(maid, environ, access)
    if key is None and endpoint is not None and endpoint.api_key_env is not None:
        missing.append(endpoint.api_key_env)
    return AttemptEnvironment(
        {
            "PATH": environ.get("PATH", os.defpath),
            "HOME": str(home),
            "TMPDIR": str(temp),
            "TERM": "dumb",
            "LANG": environ.get("LANG", "C.UTF-8"),
            **GIT,
            "GIT_CEILING_DIRECTORIES": str(tree.parent),
            **_preset(maid, home, address, key),
            **named,
            **_address(maid, address, key),
            **maid.variables,
            MARK: attempt_id,
        },
        tuple(dict.fromkeys(missing)),
    )


def is_acp(maid: MaidDefinition) -> bool:
    """Whether a maid speaks the Agent Client Protocol: kind acp, or ``goose acp …`` (D4)."""
    return maid.kind == "acp" or (maid.kind == "goose" and maid.command_template[1:2] == ("acp",))


def _provider(
    maid: MaidDefinition, environ: Mapping[str, str], access: ProviderAccess | None
) -> tuple[str, str | None]:
    """The provider's address without a slash at the end, and the key; nothing without an endpoint."""
    endpoint = maid.endpoint
    if endpoint is None:
        return "", None
    if access is not None:
        return access.url.rstrip("/"), access.key
    if endpoint.proxy:
        raise ValueError(f"maid {maid.maid_id} is to be started without the access to its provider")
    key = environ.get(endpoint.api_key_env) if endpoint.api_key_env is not None else "none"
    return endpoint.base_url.rstrip("/"), key


def _address(maid: MaidDefinition, address: str, key: str | None) -> dict[str, str]:
    """The variables in which the endpoint's row wants address and key."""
    endpoint = maid.endpoint
    if endpoint is None:
        return {}
    suffix = "" if address.endswith(endpoint.url_suffix) else endpoint.url_suffix
    own = {} if maid.kind == "goose" else {endpoint.url_variable: address + suffix}
    return own if key is None else {**own, endpoint.key_variable: key}


def _preset(maid: MaidDefinition, home: Path, address: str, key: str | None) -> dict[str, str]:
    facts = {
        # Behind an OpenAI-compatible address Goose has to speak that way, whoever provides it.
        "goose_provider": "openai" if maid.endpoint is not None else maid.provider,
        "goose_mode": maid.mode or ("approve" if is_acp(maid) else "auto"),
        "model": maid.model or "",
        "home": str(home),
        "address": address.removesuffix("/v1"),
        "key": key or "",
    }
    filled = {name: text.format_map(facts) for name, text in PRESETS.get(maid.kind, {}).items()}
    return {name: text for name, text in filled.items() if text}
