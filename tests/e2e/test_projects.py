"""Switching projects: a project's own maids, routes, variables, templates and logs, on every face (D12)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.client import Client, Json
from tests.support.maids import MaidShop, when_task
from tests.support.mcp_calls import refusal, tool
from tests.support.polling import wait_until
from tests.support.projects import make_project
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler

SECRET = "sesame-of-the-shop"
OWN = """\
import os, sys
from pathlib import Path
got = [os.environ.get(name, "nothing") for name in ("FLAVOUR", "SHOP_TOKEN", "OTHER", "LANG")]
Path(sys.argv[1], "out.txt").write_text("own " + " ".join(got[::2]) + "\\n")
assert got[3] == "C.UTF-8" and os.environ["PATH"] != "/nowhere"
print("token", got[1])
"""
TEMPLATE = "---\nname: Formatting\nlabels: [chore]\n---\nEvery file ends with a line end.\n"


class Shop(MaidShop):
    """The maids of the house, and a project that brings its own."""

    def __init__(self, server: ButlerServer) -> None:
        super().__init__(server)
        self.house_project, self.project = self.project, server.home / "shops" / "corner"
        make_project(self.project, {"readme.txt": "a shop\n", ".forms/format.md": TEMPLATE, ".gitignore": ".env\n"})
        (self.project / ".env").write_text(
            f"FLAVOUR=vanilla\nSHOP_TOKEN={SECRET}\nOTHER=not listed\nLANG=xx\nPATH=/nowhere\n"
        )
        self.logs = server.home / "logs"
        self.own = server.config / "corner"
        self.own.mkdir()
        (self.own / "own.py").write_text(OWN)
        path = server.config / "maid_registry.yml"
        registry = yaml.safe_load(path.read_text())
        registry["project_roots"].append(str(server.home / "shops"))
        self.write(path.name, registry)
        row = registry["maids"][0]
        row |= {
            "maid_id": "own", "env": ["PATH", "FLAVOUR", "SHOP_TOKEN"],
            "command_template": [sys.executable, "-S", "-E", "own.py", "{project_root}"],
            "verification_profile": {"file_checks": [{"path": "out.txt", "contains": "own"}]},
        }  # fmt: skip
        self.write("corner/maid_registry.yml", {"maids": [row]})
        self.write("corner/intent_maid_routes.yml", {"routes": [{"intent": "format", "maid_id": "own"}]})
        corner = {
            "name": "corner", "project_root": str(self.project), "config_dir": "corner", "env_path": ".env",
            "issue_template_dir": ".forms", "session_logs_dir": str(self.logs),
        }  # fmt: skip
        self.write("projects.yml", {"projects": [corner]})

    def check(self, client: Client, maid_run_id: str) -> None:
        """All five have had their effect on the task; approve it."""
        task = when_task(client, maid_run_id, "waiting_approval", "failed")
        assert (task["status"], task["project"], task["maid_id"]) == ("waiting_approval", "corner", "own"), task
        assert task["project_root"] == str(self.project)
        [attempt] = task["attempts"]
        assert "Every file ends with a line end." in attempt["prompt"] and "labels" not in attempt["prompt"]
        assert "+own vanilla nothing" in task["diff"]
        assert "token ***" in json.dumps(attempt) and SECRET not in json.dumps(task)
        [waiting] = task["approvals"]
        assert client.post(f"/approvals/{waiting['action_id']}", {"decision": "approve"}).status_code == 200
        assert when_task(client, maid_run_id, "succeeded", "failed")["status"] == "succeeded"
        assert self.out() == "own vanilla nothing\n"
        (self.project / "out.txt").unlink()
        record = json.loads(self.record(maid_run_id))
        assert (record["status"], record["maid_id"], len(record["attempts"])) == ("succeeded", "own", 1)
        assert SECRET not in self.record(maid_run_id)

    def record(self, maid_run_id: str) -> str:
        """The record of a task, once it is written."""

        def found() -> list[Path]:
            return list(self.logs.glob(f"*-{maid_run_id}.json"))

        [path] = wait_until(found, "the session log is written")
        assert path.stat().st_mode & 0o777 == 0o600
        return path.read_text()


@pytest.fixture(scope="module")
def shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    server = ButlerServer(tmp_path_factory.mktemp("projects"), shared_model.url)
    made = Shop(server)
    server.start()
    yield made
    server.close()


@pytest.fixture(scope="module")
def owner(shop: Shop) -> Client:
    return shop.server.client()


def newest(client: Client) -> str:
    found: str = client.get("/maid-runs", limit=1)["items"][0]["maid_run_id"]
    return found


def test_over_http_a_project_is_chosen_by_its_name_and_by_a_folder_in_it(shop: Shop, owner: Client) -> None:
    shop.check(owner, shop.begin(owner, "good work", project_root="corner")["maid_run_id"])
    shop.check(owner, shop.begin(owner, "good work", project_root=str(shop.project))["maid_run_id"])


def test_over_mcp_too(shop: Shop, owner: Client) -> None:
    begun = tool(owner, "delegate", intent="format", instruction="good work", project_root="corner")
    assert tool(owner, "maid_run_status", maid_run_id=begun["maid_run_id"])["project"] == "corner"
    shop.check(owner, begun["maid_run_id"])


def test_on_the_command_line_too(shop: Shop, owner: Client) -> None:
    done = shop.server.cli("maids", "run", "format", "good work", "--project", "corner", "--json")
    assert done.returncode == 0, done.stderr
    shop.check(owner, json.loads(done.stdout)["maid_run_id"])


def test_as_a_command_in_a_talk_too(shop: Shop, owner: Client) -> None:
    outcome = owner.chat('/delegate {"intent": "format", "instruction": "good work", "project_root": "corner"}')
    assert outcome["status"] == "parked", outcome
    shop.check(owner, newest(owner))


def test_a_rule_on_a_folder_holds_for_its_name_and_every_spelling_and_people_see_the_folder(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    shop = Shop(make_butler())
    row = {"tool": "delegate", "args": {"project_root": f"{shop.server.home}/shops/*"}}
    shop.server.workshop.write_policy({"name": "ask-first", "verdict": "approve", "reason": "A shop", **row})
    owner = shop.server.start().client()
    call = {"intent": "format", "instruction": "good work", "project_root": "corner"}
    typed = owner.chat(f"/delegate {json.dumps(call)}")
    [asked] = typed["approvals"]
    assert (asked["tool"], asked["rule"]) == ("delegate", "ask-first")
    assert asked["args"]["project_root"] == str(shop.project)
    assert owner.post(f"/approvals/{asked['action_id']}", {"decision": "edit", "args": call}).status_code == 200
    assert "in place of its name" in owner.when_run(typed["run_id"], "done")["reply"]
    begun = tool(owner, "delegate", **call)
    [waiting] = when_task(owner, begun["maid_run_id"], "waiting_approval")["approvals"]
    assert (waiting["rule"], waiting["args"]["project_root"]) == ("ask-first", str(shop.project))
    (shop.server.home / "shops" / "alias").symlink_to(shop.project)
    for spelling in ("shops//corner/", "shops/./corner", "shops/x/../corner", "shops/alias"):
        typed = owner.chat(f"/delegate {json.dumps({**call, 'project_root': f'{shop.server.home}/{spelling}'})}")
        [asked] = typed["approvals"]
        assert (asked["rule"], asked["args"]["project_root"]) == ("ask-first", str(shop.project)), spelling
    edited = {**call, "project_root": f"{shop.project}/../corner"}
    assert owner.post(f"/approvals/{asked['action_id']}", {"decision": "edit", "args": edited}).status_code == 200
    assert "another spelling" in owner.when_run(typed["run_id"], "done")["reply"]
    unknown = owner.chat('/delegate {"intent": "format", "instruction": "good", "project_root": "cornr"}')
    assert "did you mean 'corner'" in unknown["reply"]


def test_another_project_knows_nothing_of_it(shop: Shop, owner: Client) -> None:
    ids = shop.begin(owner, "good work", project_root=str(shop.house_project))
    task = when_task(owner, ids["maid_run_id"], "waiting_approval", "failed")
    assert (task["maid_id"], task["project"]) == ("scripted", None)
    assert "form for such tasks" not in task["attempts"][0]["prompt"]
    body = {"intent": "format", "instruction": "good", "project_root": str(shop.house_project), "maid_id": "own"}
    response = owner.post("/maids/run", body)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert owner.post(f"/maid-runs/{ids['maid_run_id']}/cancel", {}).status_code == 202
    assert not list(shop.logs.glob(f"*-{ids['maid_run_id']}.json"))


def test_a_task_that_is_cancelled_or_not_delegated_leaves_its_record_too(shop: Shop, owner: Client) -> None:
    ids = shop.begin(owner, "good work", project_root="corner")
    when_task(owner, ids["maid_run_id"], "waiting_approval")
    owner.post(f"/maid-runs/{ids['maid_run_id']}/cancel", {})
    assert json.loads(shop.record(ids["maid_run_id"]))["status"] == "cancelled"
    ids = shop.begin(owner, "good work", intent="unheard_of", project_root="corner")
    assert json.loads(shop.record(ids["maid_run_id"]))["status"] == "not_delegated"


@pytest.mark.parametrize("wanted", ["cornr", "corner "])
def test_a_name_that_no_project_has_is_refused_with_those_that_there_are(
    shop: Shop, owner: Client, wanted: str
) -> None:
    response = owner.post("/maids/run", {"intent": "format", "instruction": "good", "project_root": wanted})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert "(did you mean 'corner'?)" in response.json()["detail"]
    told = refusal(owner, "delegate", intent="format", instruction="good", project_root=wanted)
    assert (told["code"], told["detail"]) == ("invalid_request", response.json()["detail"])
    forbidden = refusal(owner, "delegate", intent="format", instruction="good", project_root="/etc")
    assert forbidden["code"] == "forbidden"


def test_the_command_line_shows_projects_and_routes_by_them(shop: Shop) -> None:
    said: Json = json.loads(shop.server.cli("maids", "list", "--json").stdout)
    [shown] = said["projects"]
    assert shown["variables"] == ["FLAVOUR", "LANG", "OTHER", "SHOP_TOKEN"] and SECRET not in json.dumps(said)
    assert [maid["maid_id"] for maid in said["maids"]] == ["scripted", "hasty", "hanging", "own"]
    assert "project corner: " in shop.server.cli("maids", "check").stdout
    asked = ("maids", "route", "format", "--instruction", "a longer one")
    assert "maid: own\n" in shop.server.cli(*asked, "--project", "corner").stdout
    assert "maid: scripted\n" in shop.server.cli(*asked, "--project", str(shop.house_project)).stdout
    assert shop.server.cli(*asked, "--project", "elsewhere").returncode == 2
