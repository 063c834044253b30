"""What maid_registry.yml and intent_maid_routes.yml say, once checked (D2, D8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from config.verdicts import Verdict

MaidKind = Literal["script", "cli", "acp", "goose"]
Adoption = Literal["not_adopted", "limited_adoption", "default_candidate"]
KeepTree = Literal["never", "failed", "always"]
FailureClass = Literal[
    "launch_error", "tool_missing", "forbidden_action", "asked_question", "premature_stop", "false_completion",
    "no_changes", "wrong_output", "wrong_directory", "loop_detected", "hung_foreground", "timeout", "provider_error",
    "policy_violation", "verifier_error", "cancelled", "unknown",
]  # fmt: skip
"""Why an attempt does not count as done (D7)."""


@dataclass(frozen=True)
class FileCheck:
    """A file of the tree that has to exist, or must not, and may have to contain a text. `timeout` in seconds."""

    path: str
    exists: bool = True
    contains: str | None = None
    timeout: float = 30.0


@dataclass(frozen=True)
class HttpCheck:
    """A URL, loopback unless listed, with the status and the text that its answer has to have."""

    url: str
    expect_status: int = 200
    expect_body: str | None = None
    timeout: float = 30.0


@dataclass(frozen=True)
class CommandCheck:
    """An argument list that equals an entry of `allowed_commands` and has to exit with 0."""

    command: tuple[str, ...]
    timeout: float = 300.0


@dataclass(frozen=True)
class ExactOutput:
    """Exactly one of `path`, `url` and `command`, whose content, body or output has to equal `expect`."""

    expect: str
    path: str | None = None
    url: str | None = None
    command: tuple[str, ...] | None = None
    timeout: float = 300.0


@dataclass(frozen=True)
class VerificationProfile:
    """The checks that are run after an attempt; none at all means ``unverified`` (D8).

    `start` is the argument list of a server that is started before the URL checks and stopped after them; like
    every command it has to equal an entry of `allowed_commands`. `ready_within` is in seconds.
    """

    file_checks: tuple[FileCheck, ...] = ()
    test_commands: tuple[CommandCheck, ...] = ()
    http_checks: tuple[HttpCheck, ...] = ()
    exact_output: tuple[ExactOutput, ...] = ()
    start: tuple[str, ...] | None = None
    ready_within: float = 30.0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to check."""
        return not (self.file_checks or self.test_commands or self.http_checks or self.exact_output)


@dataclass(frozen=True)
class Limits:
    """What an attempt may use; times in seconds (D11).

    `silence`: without any output or event. `equal_calls`: the same tool call that often in a row is a loop.
    `equal_lines`: the same line of output that often in a row is one, where nothing changes in the tree meanwhile.
    `permission_wait`: how long a maid waits for a person before its attempt is cancelled and run again later.
    """

    session_ready: float = 60.0
    silence: float = 300.0
    output_bytes: int = 8 * 1024 * 1024
    tool_calls: int = 200
    equal_calls: int = 4
    equal_lines: int = 200
    permission_wait: float = 30.0
    model_requests: int = 200
    tokens: int = 2_000_000


@dataclass(frozen=True)
class Endpoint:
    """The OpenAI-compatible provider of an agent, spoken to through Butler's own proxy unless `proxy` is off.

    `api_key_env` names the variable with the key; with the proxy it never reaches the agent. The agent finds the
    address (plus `url_suffix`) in `url_variable` and its key, or a stand-in for it, in `key_variable`.
    """

    base_url: str
    api_key_env: str | None = None
    proxy: bool = True
    url_variable: str = "OPENAI_BASE_URL"
    url_suffix: str = "/v1"
    key_variable: str = "OPENAI_API_KEY"


@dataclass(frozen=True)
class MaidDefinition:
    """One checked row of maid_registry.yml; `declaration` is the row as written, `source` its ``FILE:LINE``.

    `permission` is the verdict on the maid's own permission requests where no rule and no grant speaks;
    `launch_verdict` that on starting it. `timeout` is the wall clock of one attempt in seconds. `mode` is the session
    mode that an ACP agent is set to. `variables` are set as written; `env` are names passed through.
    `include_uncommitted`: its tree has what the person has not committed yet, too. `keep_tree`: whether its trees stay
    as evidence when a task is over.
    """

    maid_id: str
    kind: MaidKind
    label: str
    provider: str
    model: str | None
    role: str
    command_template: tuple[str, ...]
    env: tuple[str, ...] = ()
    enabled: bool = True
    timeout: float = 900.0
    permission: Verdict = "approve"
    launch_verdict: Literal["allow", "approve"] = "approve"
    verification_profile: VerificationProfile = VerificationProfile()
    limits: Limits = Limits()
    endpoint: Endpoint | None = None
    mode: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    sandbox: Literal["none", "bubblewrap"] = "none"
    include_uncommitted: bool = True
    keep_tree: KeepTree = "never"
    source: str = ""
    declaration: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MaidRegistryFile:
    """The whole of maid_registry.yml; `project_roots` are absolute, with ``~`` and links resolved.

    No more than `most_at_once` maids run at the same time; further ones wait for their turn.
    """

    maids: tuple[MaidDefinition, ...] = ()
    allowed_commands: tuple[tuple[str, ...], ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    project_roots: tuple[Path, ...] = ()
    most_at_once: int = 4

    def maid(self, maid_id: str) -> MaidDefinition | None:
        """The maid of that id, enabled or not."""
        return next((maid for maid in self.maids if maid.maid_id == maid_id), None)


@dataclass(frozen=True)
class RetryPolicy:
    """How often a task is tried; `retry_on` None means every class that can be retried (D7)."""

    max_attempts: int = 3
    retry_on: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RouteDefinition:
    """One checked row of intent_maid_routes.yml; `maid_id` None: not delegated. `conditions` as written."""

    intent: str
    maid_id: str | None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    retry_policy: RetryPolicy | None = None
    source: str = ""
