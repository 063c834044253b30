"""Maids of the tests' own making: one script, what it does is said by the first word of the instruction."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import yaml

from tests.support.acp_launch import AGENT
from tests.support.client import Client, Json
from tests.support.polling import wait_until
from tests.support.projects import git, make_project
from tests.support.server import ButlerServer

SCRIPT = '''\
"""A maid: ROOT INSTRUCTION. The first word of the instruction says what it does; STATE remembers its runs."""
import os, subprocess, sys, time
from pathlib import Path
root, instruction = Path(sys.argv[1]), sys.argv[2]
what, _, rest = instruction.partition(" ")
state = Path(__file__).with_name("state")
state.mkdir(exist_ok=True)
log = state / "runs"
with log.open("a") as lines:
    lines.write(f"{what} {os.getpid()}\\n")
count = sum(line.startswith(what + " ") for line in log.read_text().splitlines())
def write(text="formatted\\n"):
    (root / "out.txt").write_text(text)
if what == "good":
    write()
    print("I have written out.txt")
elif what == "lie":
    print("Done! I have created out.txt and all tests pass.")
elif what == "third":
    write("formatted\\n" if count == 3 else f"wrong {count}\\n")
elif what == "grumble":
    write()
    sys.exit(1)
elif what == "ask":
    print("Shall I proceed?")
elif what == "feedback":
    prompt = Path(sys.argv[3]).read_text()
    write("formatted\\n")
    (root / "more.txt").write_text("with feedback" if "please add more" in prompt else "without")
elif what == "escape":
    write()
    child = subprocess.Popen(["sleep", "300"], start_new_session=True, env={})
    (state / "child").write_text(str(child.pid))
    os.kill(os.getppid(), 9)
    time.sleep(300)
elif what == "nothing":
    pass
elif what == "slow" or (what == "slowly" and count == 1):
    print("I have read the task and begin", flush=True)
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    (state / "child").write_text(str(child.pid))
    (state / "began").touch()
    time.sleep(300)
elif what == "slowly":
    write()
elif what == "flood":
    counted = (state / "written").open("wb", buffering=0)  # a byte for each piece
    for number in range(16384):  # one gigabyte
        counted.write(b".")
        os.write(1, b"x" * 65535 + b"\\n")
elif what == "repeat":
    while True:
        print("I am still thinking about what to do next")
elif what == "astray":
    (Path(rest.split()[0]) / "stray.txt").write_text(str(count))
elif what == "hang":
    code = "import socket as s, sys, time; x = s.create_server(('127.0.0.1', 0)); "
    code += "open(sys.argv[1], 'w').write(str(x.getsockname()[1])); time.sleep(300)"
    subprocess.Popen([sys.executable, "-S", "-E", "-c", code, str(state / "port")], start_new_session=True)
    subprocess.Popen(["sh", "-c", "setsid sleep 300 & setsid sleep 300 & wait"])
    (state / "child").write_text(str(os.getpid()))
    time.sleep(300)
'''


class MaidShop:
    """Writes registry, routes and a project for a server; reads what the script maid did."""

    def __init__(self, server: ButlerServer, *, checks: bool = True, **maid: Any) -> None:
        self.server = server
        self.project = server.home / "project"
        self.state = server.config / "state"
        (server.config / "maid.py").write_text(SCRIPT)
        make_project(self.project, {"readme.txt": "a project\n"})
        row: Json = {
            "maid_id": "scripted", "kind": "script", "label": "Scripted", "provider": "local_script", "model": None,
            "role": "format", "env": ["PATH"], "timeout": 30, "launch_verdict": "allow",
            "command_template": [sys.executable, "-S", "-E", "maid.py", "{project_root}", "{instruction}",
                                 "{prompt_file}"],
            "verification_profile": {"file_checks": [{"path": "out.txt", "contains": "formatted"}]} if checks else {},
            **maid,
        }  # fmt: skip
        hasty = {**row, "maid_id": "hasty", "timeout": 1.0, "limits": {"output_bytes": 1_000_000}}
        hanging = {**row, "maid_id": "hanging", "limits": {"silence": 1.0}, "keep_tree": "failed"}
        self.write("maid_registry.yml", {"maids": [row, hasty, hanging], "project_roots": [str(self.project)]})
        self.write(
            "intent_maid_routes.yml",
            {"routes": [
                {"intent": "format", "maid_id": None, "conditions_json": {"max_instruction_chars": 3}},
                {"intent": "format", "maid_id": "scripted"},
            ]},
        )  # fmt: skip

    def add_agent(self, maid_id: str, *steps: Json, **maid: Any) -> None:
        """One more maid: the scripted agent over its protocol, with these steps; its intent is its id."""
        path = self.server.config / "maid_registry.yml"
        registry = yaml.safe_load(path.read_text())
        row = {
            "maid_id": maid_id, "kind": "acp", "label": "Agent", "provider": "local", "model": None, "role": "work",
            "env": ["PATH"], "timeout": 30, "launch_verdict": "allow",
            "command_template": [sys.executable, "-S", str(AGENT), json.dumps({"steps": steps}).replace("{", "{{")
                                 .replace("}", "}}")],
            "verification_profile": {"file_checks": [{"path": "out.txt", "contains": "formatted"}]},
            **maid,
        }  # fmt: skip
        registry["maids"].append(row)
        self.write(path.name, registry)
        path = self.server.config / "intent_maid_routes.yml"
        routes = yaml.safe_load(path.read_text())
        routes["routes"].append({"intent": maid_id, "maid_id": maid_id})
        self.write(path.name, routes)

    def write(self, name: str, value: Json) -> None:
        """Replace a configuration file."""
        (self.server.config / name).write_text(yaml.safe_dump(value, sort_keys=False))

    def runs(self, what: str) -> int:
        """How often the script has run for that word."""
        log = self.state / "runs"
        return sum(line.startswith(f"{what} ") for line in log.read_text().splitlines()) if log.exists() else 0

    def out(self) -> str | None:
        """The person's out.txt."""
        path = self.project / "out.txt"
        return path.read_text() if path.exists() else None

    @property
    def folders(self) -> list[str]:
        """What is left in the data directory of tasks."""
        place = self.server.data / "maids"
        return sorted(path.name for path in place.iterdir() if path.is_dir()) if place.exists() else []

    @property
    def worktrees(self) -> list[str]:
        """Worktrees that the project knows of beside itself."""
        lines = git(self.project, "worktree", "list", "--porcelain").splitlines()
        return [line for line in lines if line.startswith("worktree ")][1:]

    def begin(self, client: Client, what: str, **fields: Any) -> Json:
        """POST /maids/run that must be accepted; gives its ids."""
        body = {"intent": "format", "instruction": what, "project_root": str(self.project), **fields}
        response = client.post("/maids/run", body)
        assert response.status_code == 202, response.text
        found: Json = response.json()
        return found

    def grandchild_lives(self) -> bool:
        """Whether the process that a slow maid left in a session of its own still runs."""
        return os.path.exists(f"/proc/{(self.state / 'child').read_text()}")


def when_task(client: Client, maid_run_id: str, *statuses: str, seconds: float = 60.0) -> Json:
    """Wait until the task has one of the statuses; gives it."""

    def probe() -> Json | None:
        task = client.get(f"/maid-runs/{maid_run_id}")
        return task if task["status"] in statuses else None

    return wait_until(probe, f"maid run {maid_run_id} is {' or '.join(statuses)}", seconds)
