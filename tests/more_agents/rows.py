"""How each agent is started as a maid; docs/maids.md has the same rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.agents import AGENTS, CHECKS, KEY_NAME, installed, order
from tests.support.client import Json

MORE = AGENTS / "more" / "node_modules"
CODEX = MORE / "@zed-industries" / "codex-acp-linux-x64" / "bin" / "codex-acp"
OPENCODE = MORE / "opencode-linux-x64" / "bin" / "opencode"

CODEX_STARTER = '''\
"""Start codex-acp with the provider's address, which it reads from no variable: PROGRAM ARGUMENT…"""
import os
import sys

home = os.path.join(os.environ["HOME"], ".codex")
os.makedirs(home, exist_ok=True)
provider = {
    "model_provider": "butler",
    "model_providers.butler.name": "Butler",
    "model_providers.butler.base_url": os.environ["OPENAI_BASE_URL"],
    "model_providers.butler.env_key": "OPENAI_API_KEY",
    "model_providers.butler.wire_api": "responses",
}
options = [word for key, value in provider.items() for word in ("-c", f'{key}="{value}"')]
os.environ["CODEX_HOME"] = home
os.execv(sys.argv[1], [*sys.argv[1:], *options])
'''
OPENCODE_SETTINGS: Json = {
    "autoupdate": False, "share": "disabled", "enabled_providers": ["butler"], "model": "butler/scripted",
    "small_model": "butler/scripted", "permission": {"edit": "ask", "bash": "ask"},
    "provider": {
        "butler": {
            "npm": "@ai-sdk/openai-compatible", "name": "Butler",
            "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"scripted": {"name": "scripted", "limit": {"context": 128000, "output": 4096}}},
        }
    },
}  # fmt: skip


@dataclass(frozen=True)
class Agent:
    """An agent: its row for a model's address, its program, its orders for a file, half of it, a line at the end."""

    name: str
    program: Path
    row: Callable[[str], Json]
    hello: str
    half: Json
    append: Json
    kind: str


def _base(name: str, model_url: str, **more: Any) -> Json:
    return {
        "maid_id": name, "kind": "acp", "label": name, "provider": "local", "model": "scripted", "role": "code",
        "timeout": 120, "launch_verdict": "allow", "permission": "approve", "verification_profile": CHECKS,
        "endpoint": {"base_url": model_url, "api_key_env": KEY_NAME}, **more,
    }  # fmt: skip


def codex(model_url: str) -> Json:
    """codex-acp through its starter, which lies beside the registry."""
    own = ('model="{model}"', 'approval_policy="untrusted"', 'sandbox_mode="danger-full-access"')
    options = [word for value in (*own, "request_max_retries=1") for word in ("-c", value)]
    start = [sys.executable, "-S", "-E", "start_codex.py", installed(CODEX, "test-agents")]
    return _base("codex", model_url, command_template=[*start, *options])


def opencode(model_url: str) -> Json:
    """opencode with all its settings in one variable."""
    quiet = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD")
    variables = {f"OPENCODE_DISABLE_{name}": "1" for name in quiet}
    variables["OPENCODE_CONFIG_CONTENT"] = json.dumps(OPENCODE_SETTINGS)
    command = [installed(OPENCODE, "test-agents"), "acp"]
    return _base("opencode", model_url, command_template=command, variables=variables)


HALF = "echo half > half.txt"
APPEND = "echo hello world >> hello.txt"
MORE_AGENTS = (
    Agent(
        "codex", CODEX, codex, order("exec_command", cmd="echo hello world > hello.txt"),
        {"name": "exec_command", "arguments": {"cmd": HALF}},
        {"name": "exec_command", "arguments": {"cmd": APPEND}}, "execute",
    ),
    Agent(
        "opencode", OPENCODE, opencode, order("write", filePath="hello.txt", content="hello world\n"),
        {"name": "bash", "arguments": {"command": HALF, "description": "half of it"}},
        {"name": "bash", "arguments": {"command": APPEND, "description": "the rest"}}, "edit",
    ),
)  # fmt: skip
