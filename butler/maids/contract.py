"""What the parts of a delegated task say to each other: launch, events, checks, diff, failure (D4, D7, D8, D9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from butler.types import Json
from config.maid_types import FailureClass as FailureClass
from config.maid_types import MaidDefinition, VerificationProfile

MaidRunStatus = Literal[
    "running", "waiting_approval", "succeeded", "failed", "unverified", "not_delegated", "cancelled"
]
AttemptStatus = Literal["running", "passed", "failed", "unverified", "interrupted", "cancelled"]


@dataclass(frozen=True)
class Task:
    """What the caller asks for; never a model (D1). `maid_id` only where a person named one."""

    maid_run_id: str
    intent: str
    instruction: str
    project_root: Path
    constraints: tuple[str, ...] = ()
    expect: VerificationProfile | None = None
    maid_id: str | None = None


@dataclass(frozen=True)
class Resume:
    """An agent's earlier session that an attempt goes on with; in it `prompt` is said instead, where it is given."""

    session_id: str
    prompt: str | None = None


@dataclass(frozen=True)
class Launch:
    """Everything a launcher needs for one attempt.

    `attempt_id` marks all processes (`MAID_RUN` in their environment). `tree` is the working directory; `home` and
    `temp` are the attempt's own folders outside of it. `environment` is complete: nothing is inherited. With `resume`
    the home is that of the earlier session; an agent that can't load it begins a new one.
    """

    attempt_id: str
    maid: MaidDefinition
    task: Task
    prompt: str
    prompt_file: Path
    tree: Path
    home: Path
    temp: Path
    environment: Mapping[str, str]
    resume: Resume | None = None


@dataclass(frozen=True)
class Started:
    """The maid's process runs."""

    pid: int
    argv: tuple[str, ...]


@dataclass(frozen=True)
class SessionOpened:
    """An agent's session is open: a new one, or `loaded`, an earlier one; `detail` says why it was not loaded."""

    session_id: str
    can_load: bool
    loaded: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Output:
    """Text as it came; `message` is what an agent says in its own protocol."""

    stream: Literal["stdout", "stderr", "message", "thought"]
    text: str


@dataclass(frozen=True)
class ToolUse:
    """A tool call of the agent, told again whenever its state changes; `locations` are absolute, links resolved.

    `output` is the end of what the tool gave back, a few KiB at most; empty while it runs or where nobody told.
    """

    call_id: str
    kind: str
    title: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    locations: tuple[Path, ...] = ()
    raw_input: Json = field(default_factory=dict)
    output: str = ""


@dataclass(frozen=True)
class ProviderTrouble:
    """What the proxy saw between agent and provider: `status` 401, 402, 429, 5xx, or 0 for no answer at all.

    `answers` is how many whole answers of the model the attempt has had before.
    """

    status: int
    detail: str
    retry_after: float | None = None
    answers: int = 0


MaidEvent = Started | SessionOpened | Output | ToolUse | ProviderTrouble


@dataclass(frozen=True)
class PermissionRequest:
    """What the agent asks leave for; decided by `kind`, `command` and `paths`, never by `title`.

    `paths` are absolute with links resolved; `outside` are those that leave the tree.
    """

    call_id: str
    kind: str
    title: str
    command: tuple[str, ...] | str | None = None
    paths: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()
    raw_input: Json = field(default_factory=dict)


PermissionAnswer = Literal["allow", "reject", "cancel"]
"""``cancel``: nobody answered in time; the launcher ends the attempt cleanly, it runs again after the verdict."""


@dataclass(frozen=True)
class Stop:
    """Why an attempt must end now, and under which class it is counted."""

    failure_class: FailureClass
    detail: str


class Watcher(Protocol):
    """The supervisor as a launcher sees it."""

    def event(self, event: MaidEvent) -> Stop | None:
        """Take note of an event, in order; a `Stop` makes the launcher go down its stop ladder."""

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Rule on a permission request: policy, grants, ledger, inbox (D10)."""


@runtime_checkable
class Interrupting(Protocol):
    """What a watcher may be besides: one that ends an attempt also between two events, as on a provider's trouble."""

    async def interrupted(self) -> Stop:
        """Wait until the attempt must end, for ever if it need not."""


@dataclass(frozen=True)
class Tokens:
    """Tokens and model requests of an attempt, as far as they are known."""

    input_tokens: int = 0
    output_tokens: int = 0
    model_requests: int = 0


@dataclass(frozen=True)
class Finished:
    """How an attempt's process ended; `claim` is the maid's last word and proves nothing.

    `stopped` is set where Butler ended it: a limit, a `Stop` of the watcher, a permission nobody answered
    (`awaits_permission`), or a launch that failed. `left_behind` counts processes that had to be swept up.
    `plan_left` counts the entries of the agent's own plan that were not completed.
    """

    exit_code: int | None
    claim: str = ""
    stop_reason: str | None = None
    stopped: Stop | None = None
    awaits_permission: bool = False
    stdout_tail: str = ""
    stderr_tail: str = ""
    output_bytes: int = 0
    tokens: Tokens = Tokens()
    left_behind: int = 0
    duration: float = 0.0
    plan_left: int = 0


class Launcher(Protocol):
    """Runs one attempt to its end. Cancelling the coroutine kills the whole process tree before it is raised on."""

    async def run(self, launch: Launch, watcher: Watcher) -> Finished:
        """Start the maid, tell the watcher everything, and leave no process behind, however it ends."""


@dataclass(frozen=True)
class CheckResult:
    """One check with what was expected and what was found; ``error``: the check itself could not be made."""

    kind: Literal["file", "command", "http", "exact_output", "start"]
    name: str
    outcome: Literal["passed", "failed", "error"]
    expected: str
    actual: str
    duration: float


@dataclass(frozen=True)
class Verification:
    """What Butler saw with its own eyes (D8)."""

    outcome: Literal["passed", "failed", "unverified", "error"]
    checks: tuple[CheckResult, ...] = ()


@dataclass(frozen=True)
class Change:
    """A changed file; `old_path` of a rename. Paths are relative to the tree, with ``/``."""

    path: str
    status: Literal["added", "modified", "deleted", "renamed", "type_changed"]
    old_path: str | None = None
    binary: bool = False
    added_lines: int = 0
    removed_lines: int = 0


@dataclass(frozen=True)
class Diff:
    """The work of a series of attempts; `text` may be cut, `sha256` and `patch` (a file) are whole.

    `notes` say what is not part of it (ignored files, submodules) and what lies outside of the project's folder;
    `left_out` are files that checks name, that are there, and that can't be part of it.
    """

    sha256: str
    text: str
    changes: tuple[Change, ...]
    patch: Path
    is_cut: bool = False
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not self.changes


@dataclass(frozen=True)
class Failure:
    """Why an attempt does not count as done; `check` is the first one that failed."""

    failure_class: FailureClass
    detail: str
    check: CheckResult | None = None
