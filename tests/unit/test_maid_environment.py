"""The environment of an attempt: named variables, Butler's own, and nothing else (D11)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butler.maids.launching.environment import GIT, AttemptEnvironment, attempt_environment
from butler.maids.provider import ProviderAccess
from config.maid_types import Endpoint, MaidDefinition
from tests.support.projects import make_project

SERVER = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/the/person",
    "LANG": "de_DE.UTF-8",
    "BUTLER_OWNER_TOKEN": "secret",
    "GIT_DIR": "/elsewhere",
    "REAL_KEY": "sk-real",
    "NAMED": "yes",
}
ACCESS = ProviderAccess("http://127.0.0.1:4001", "stand-in")


def maid(**changes: Any) -> MaidDefinition:
    fields: dict[str, Any] = {
        "kind": "cli",
        "label": "M",
        "provider": "openrouter",
        "model": "large",
        "role": "worker",
        "command_template": ("agent",),
        **changes,
    }
    return MaidDefinition(maid_id="m", **fields)


def build(
    definition: MaidDefinition, access: ProviderAccess | None = None, server: Mapping[str, str] = SERVER
) -> AttemptEnvironment:
    return attempt_environment(
        definition,
        attempt_id="att_1",
        tree=Path("/data/run/tree"),
        home=Path("/data/run/home"),
        temp=Path("/data/run/temp"),
        environ=server,
        access=access,
    )


def test_a_maid_without_wishes_gets_only_what_butler_sets() -> None:
    assert build(maid()).variables == {
        **GIT,
        "PATH": "/usr/bin:/bin",
        "HOME": "/data/run/home",
        "TMPDIR": "/data/run/temp",
        "TERM": "dumb",
        "LANG": "de_DE.UTF-8",
        "GIT_CEILING_DIRECTORIES": "/data/run",
        "MAID_RUN": "att_1",
    }


def test_named_variables_pass_and_missing_ones_are_told() -> None:
    result = build(maid(env=("NAMED", "ABSENT", "HOME", "ABSENT"), variables={"MODE": "fast", "MAID_RUN": "mine"}))
    assert result.missing == ("ABSENT",)
    chosen = {name: result.variables.get(name) for name in ("NAMED", "ABSENT", "HOME", "MODE", "MAID_RUN")}
    expected = {"NAMED": "yes", "ABSENT": None, "HOME": "/the/person", "MODE": "fast", "MAID_RUN": "att_1"}
    assert chosen == expected


def test_behind_the_proxy_the_agent_gets_a_stand_in_for_the_key() -> None:
    endpoint = Endpoint("https://provider.example", api_key_env="REAL_KEY")
    result = build(maid(endpoint=endpoint, env=("REAL_KEY",)), ACCESS)
    assert result.variables["OPENAI_BASE_URL"] == "http://127.0.0.1:4001/v1"
    assert result.variables["OPENAI_API_KEY"] == "stand-in"
    assert "sk-real" not in "".join(result.variables.values())
    assert result.missing == ()


def test_without_the_proxy_the_agent_gets_the_providers_own_address_and_key() -> None:
    endpoint = Endpoint(
        "https://provider.example/v1/", api_key_env="REAL_KEY", proxy=False, url_variable="URL", key_variable="KEY"
    )
    result = build(maid(endpoint=endpoint))
    assert (result.variables["URL"], result.variables["KEY"]) == ("https://provider.example/v1", "sk-real")


def test_a_key_that_is_not_set_is_told_as_missing() -> None:
    result = build(maid(endpoint=Endpoint("https://provider.example", api_key_env="NO_KEY", proxy=False)))
    assert result.missing == ("NO_KEY",)
    assert "OPENAI_API_KEY" not in result.variables


def test_a_maid_that_wants_the_proxy_is_not_started_without_it() -> None:
    with pytest.raises(ValueError, match="access to its provider"):
        build(maid(endpoint=Endpoint("https://provider.example")))


def goose(*command: str, **changes: Any) -> dict[str, str]:
    definition = maid(kind="goose", command_template=command, **changes)
    variables = build(definition, ACCESS if definition.endpoint is not None else None).variables
    return {name: text for name, text in variables.items() if name.startswith(("GOOSE_", "OPENAI_"))}


def test_goose_is_told_everything_by_variables() -> None:
    endpoint = Endpoint("https://provider.example/v1", api_key_env="REAL_KEY")
    assert goose("goose", "run", "-t", "{instruction}", endpoint=endpoint) == {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "large",
        "GOOSE_MODE": "auto",
        "GOOSE_PATH_ROOT": "/data/run/home/goose",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_DISABLE_SESSION_NAMING": "true",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": "http://127.0.0.1:4001",
        "OPENAI_API_KEY": "stand-in",
    }


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"command": ("goose", "acp")}, "approve"),
        ({"command": ("goose", "acp"), "mode": "smart_approve"}, "smart_approve"),
        ({"command": ("goose", "run"), "variables": {"GOOSE_MODE": "chat"}}, "chat"),
    ],
)
def test_the_mode_of_goose_follows_its_kind_and_its_row(changes: dict[str, Any], mode: str) -> None:
    command = changes.pop("command")
    variables = goose(*command, **changes)
    assert variables["GOOSE_MODE"] == mode
    assert variables["GOOSE_PROVIDER"] == "openrouter"
    assert "OPENAI_HOST" not in variables


def test_git_commits_without_asking_and_without_the_persons_configuration(tmp_path: Path) -> None:
    result = attempt_environment(
        maid(),
        attempt_id="att_1",
        tree=tmp_path / "tree",
        home=tmp_path,
        temp=tmp_path,
        environ={"PATH": os.environ["PATH"], "HOME": "/the/person"},
    )
    tree = tmp_path / "tree"
    tree.mkdir()
    for command in (["init", "-q"], ["config", "commit.gpgsign", "true"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *command], cwd=tree, env=dict(result.variables), check=True)
    shown = subprocess.run(
        ["git", "log", "--format=%an <%ae>"], cwd=tree, env=dict(result.variables), check=True, capture_output=True
    )
    assert shown.stdout.decode().strip() == "Butler's maid <maid@localhost>"


NAMES = st.text("ABCDEFGH_", min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, st.text("xyz")), st.lists(NAMES, unique=True))
def test_only_named_variables_of_the_server_ever_pass(server: dict[str, str], names: list[str]) -> None:
    result = build(maid(env=tuple(names)), server=server)
    own = build(maid(), server=server).variables
    assert {name: text for name, text in result.variables.items() if name not in own} == {
        name: server[name] for name in names if name in server
    }
    assert set(result.missing) == set(names) - set(server)


def test_git_reaches_no_other_repository_before_anybody_has_approved(tmp_path: Path) -> None:
    project, other = make_project(tmp_path / "project", {"a.txt": "a\n"}), tmp_path / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", str(other)], check=True)
    variables = build(maid(), server={"PATH": os.environ["PATH"]}).variables
    for target in (str(other), f"file://{other}", "ssh://localhost/x", "https://localhost/x"):
        done = subprocess.run(
            ["git", "push", "-q", target, "HEAD:refs/heads/stolen"],
            cwd=project, env={**variables, "GIT_CEILING_DIRECTORIES": ""}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode != 0 and "not allowed" in done.stderr
    assert subprocess.run(["git", "branch", "-a"], cwd=other, capture_output=True, check=True).stdout == b""
