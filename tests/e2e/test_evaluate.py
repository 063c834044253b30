"""`butler maids evaluate` beside a running server: the class it gives is shown everywhere and decides routes (D13)."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import yaml

from tests.support import suite_maid
from tests.support.client import Json
from tests.support.maids import when_task
from tests.support.projects import make_project
from tests.support.server import ButlerServer, MakeButler


def house(server: ButlerServer, *hows: str) -> Path:
    """Maids of the tests' own making, and a route that wants a default candidate; gives the project."""
    shutil.copy(suite_maid.__file__, server.config / "maid.py")
    rows = [
        {
            "maid_id": how, "kind": "script", "label": how, "provider": "local", "model": None, "role": "all",
            "timeout": 30, "env": ["PATH"], "launch_verdict": "allow",
            "command_template": [sys.executable, "-S", "-E", "maid.py", "{project_root}", "{intent}", "{instruction}",
                                 how],
        }
        for how in hows
    ]  # fmt: skip
    project = make_project(server.home / "project", {"readme.txt": "a project\n"})
    registry = {"maids": rows, "project_roots": [str(project)]}
    routes = [{"intent": "create_file", "maid_id": how, "conditions_json": {"adoption": ["default_candidate"]}}
              for how in hows]  # fmt: skip
    for name, value in (("maid_registry.yml", registry), ("intent_maid_routes.yml", {"routes": routes})):
        (server.config / name).write_text(yaml.safe_dump(value))
    return project


def document(server: ButlerServer, *arguments: str) -> Json:
    done = server.cli("maids", *arguments, "--json", deadline=120)
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    return found


def test_the_whole_suite_gives_a_class_that_is_shown_and_routes_tasks(make_butler: MakeButler) -> None:
    server = make_butler(with_model=False)
    project = house(server, "perfect")
    server.start()
    owner = server.client()
    route = ("route", "create_file", "--project", str(project))
    assert document(server, *route)["maid_id"] is None
    found = document(server, "evaluate", "perfect")
    assert found["adoption"] == "default_candidate", found
    assert found["totals"]["tasks"] == 20
    assert [one["name"] for one in found["tasks"] if not one["ok"]] == []
    assert document(server, "list")["maids"][0]["adoption"] == "default_candidate"
    assert owner.get("/maids")["items"][0]["adoption"] == "default_candidate"
    assert document(server, *route)["maid_id"] == "perfect"
    assert owner.get("/maid-runs")["items"] == []
    body = {"intent": "create_file", "instruction": "create hello.txt", "project_root": str(project)}
    begun = owner.post("/maids/run", body).json()
    task = when_task(owner, begun["maid_run_id"], "waiting_approval", "not_delegated", "failed")
    assert (task["status"], task["maid_id"]) == ("waiting_approval", "perfect")
    assert [path.name for path in project.iterdir() if path.name != ".git"] == ["readme.txt"]


def test_a_part_of_the_suite_is_shown_and_not_kept(make_butler: MakeButler) -> None:
    server = make_butler(with_model=False)
    house(server, "liar")
    done = server.cli("maids", "evaluate", "liar", "--tasks", "create_file", "--tasks", "edit_line")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split()[:4] == ["create_file", "not", "done", "2"]
    assert lines[-1] == "adoption: none is given for a part of the suite"
    assert "edit_line: not done" in done.stderr
    assert document(server, "list")["maids"][0]["adoption"] is None


def test_what_can_t_be_tried_is_told(make_butler: MakeButler) -> None:
    server = make_butler(with_model=False)
    house(server, "perfect")
    unknown = server.cli("maids", "evaluate", "perfekt")
    assert (unknown.returncode, "there are: perfect" in unknown.stderr) == (5, True)
    task = server.cli("maids", "evaluate", "perfect", "--tasks", "creat_file")
    assert (task.returncode, "did you mean 'create_file'" in task.stderr) == (2, True)
