"""Real coding agents as maids of a real server; the scripted model is the provider of both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.support.client import Client, Json
from tests.support.maids import when_task
from tests.support.polling import wait_until
from tests.support.projects import git, make_project
from tests.support.server import ROOT, ButlerServer

AGENTS = ROOT / ".agents"
GOOSE = AGENTS / "node_modules" / "@aaif" / "goose-binary-linux-x64" / "bin" / "goose"
KEY_NAME = "AGENT_TEST_KEY"
KEY = "sk-test-4f1d0c9b7e2a4d6f"
CHECKS: Json = {"file_checks": [{"path": "hello.txt", "contains": "hello world"}]}
FILES = {"readme.txt": "a project\n"}


def installed(program: Path, target: str) -> str:
    """The path of an agent's program; says what to do where it is missing."""
    assert program.is_file(), f"there is no {program.relative_to(ROOT)}; run `make {target}`"
    return str(program)


def goose_row(maid_id: str, way: Sequence[str], model_url: str, **more: Any) -> Json:
    """A registry row for Goose."""
    return {
        "maid_id": maid_id, "kind": "goose", "label": f"Goose ({maid_id})", "provider": "local", "model": "scripted",
        "role": "code", "command_template": [installed(GOOSE, ".agents/.installed"), *way], "timeout": 60,
        "launch_verdict": "allow", "verification_profile": CHECKS, "variables": {"GOOSE_PROVIDER_SKIP_BACKOFF": "true"},
        "endpoint": {"base_url": model_url, "api_key_env": KEY_NAME}, **more,
    }  # fmt: skip


ACP = ("acp", "--with-builtin", "developer")
RUN = (
    *("run", "--no-session", "--no-profile", "--with-builtin", "developer", "--max-turns", "25", "-q"),
    *("--output-format", "stream-json", "-i", "{prompt_file}"),
)


class AgentShop:
    """A server whose maids are real agents, one intent for each of them, and a project.

    Args:
        rows: of the registry; a task's intent is the maid's id.
    """

    def __init__(self, server: ButlerServer, rows: Sequence[Json], retry: Json | None = None) -> None:
        self.server = server
        self.project = make_project(server.home / "project", FILES)
        server.env[KEY_NAME] = KEY
        self._write("maid_registry.yml", {"maids": list(rows), "project_roots": [str(self.project)]})
        routes = [
            {"intent": row["maid_id"], "maid_id": row["maid_id"], "retry_policy_json": retry or {"max_attempts": 1}}
            for row in rows
        ]
        self._write("intent_maid_routes.yml", {"routes": routes})
        server.start()
        self.owner: Client = server.client()

    def _write(self, name: str, value: Json) -> None:
        (self.server.config / name).write_text(yaml.safe_dump(value, sort_keys=False))

    def begin(self, intent: str, instruction: str, **fields: Any) -> Json:
        """Delegate a task; gives its ids."""
        body = {"intent": intent, "instruction": instruction, "project_root": str(self.project), **fields}
        response = self.owner.post("/maids/run", body)
        assert response.status_code == 202, response.text
        found: Json = response.json()
        return found

    def when(self, ids: Json, *statuses: str, seconds: float = 60.0) -> Json:
        """Wait until the task has one of the statuses."""
        return when_task(self.owner, ids["maid_run_id"], *statuses, seconds=seconds)

    def ended(self, intent: str, instruction: str, seconds: float = 60.0, **fields: Any) -> Json:
        """Delegate a task that must end without anybody's help; nothing of it may be left."""
        task = self.when(self.begin(intent, instruction, **fields), "succeeded", "failed", "unverified", "cancelled",
                         "waiting_approval", seconds=seconds)  # fmt: skip
        assert task["status"] != "waiting_approval", task
        self.clean()
        return task

    def decide(self, task: Json, decision: str, **more: str) -> Json:
        """Answer the one question that a task waits with; gives the question."""
        [waiting] = task["approvals"]
        more.setdefault("fingerprint", waiting["fingerprint"])
        response = self.owner.post(f"/approvals/{waiting['action_id']}", {"decision": decision, **more})
        assert response.status_code == 200, response.text
        found: Json = waiting
        return found

    def read(self, name: str = "hello.txt") -> str | None:
        """A file of the person's project."""
        path = self.project / name
        return path.read_text() if path.exists() else None

    def restore(self) -> None:
        """Put the project back to its first commit."""
        git(self.project, "reset", "-q", "--hard")
        git(self.project, "clean", "-q", "-fdx")

    def processes(self) -> list[psutil.Process]:
        """The living processes of this server's attempts, the oldest first."""
        home, found = str(self.server.home), []
        for process in psutil.process_iter():
            try:
                environ = process.environ()
                mine = "MAID_RUN" in environ and environ.get("HOME", "").startswith(home)
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return sorted(found, key=lambda one: one.pid)

    def clean(self) -> None:
        """Nothing of an attempt may be left: no process, no folder, no worktree."""
        place = self.server.data / "maids"

        def is_clean() -> bool:
            trees = git(self.project, "worktree", "list", "--porcelain").count("worktree ")
            return not any(path.is_dir() for path in place.iterdir()) and trees == 1

        wait_until(is_clean, "the folders of attempts are gone")
        assert self.processes() == []

    def agent(self, program: Path = GOOSE) -> psutil.Process:
        """The agent itself, once it runs."""

        def found() -> psutil.Process | None:
            return next((one for one in self.processes() if one.exe() == str(program)), None)

        return wait_until(found, "an agent runs")


def asked(shop: AgentShop, ids: Json, tool: str) -> Json:
    """Wait until a task waits with the one question of that tool; gives the task."""

    def probe() -> Json | None:
        task = shop.when(ids, "waiting_approval", "failed", seconds=120)
        assert task["status"] != "failed", task
        return task if [one["tool"] for one in task["approvals"]] == [tool] else None

    return wait_until(probe, f"{tool} is asked", 60)


def order(name: str, **arguments: Any) -> str:
    """The words that make the scripted model call a tool of the agent."""
    return f"[[call {name} {json.dumps(arguments)}]]"


HELLO = order("write", path="hello.txt", content="hello world\n")
DONE = "[[say I have created hello.txt.]]"
