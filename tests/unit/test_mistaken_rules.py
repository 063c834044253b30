"""A slip of the pen in policy.yml never makes a rule dead without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli import run

TOOLS = """
tools:
  - name: append_line
    description: Append a line
    input_schema: {type: object, properties: {text: {type: string}}, additionalProperties: false}
    command: [tee, "{text}"]
"""
POLICY = """
rules:
  - name: no-secrets
    tool: append_line
    args:
      text: "*PRIVATE KEY*"
    verdict: refuse
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policy file of a working directory with one tool and one rule."""
    for name in ("BASE_URL", "MODEL", "API_TOKEN", "DATA_DIR", "CONFIG_DIR", "DATABASE_URL"):
        monkeypatch.delenv(f"BUTLER_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "tools.yml").write_text(TOOLS)
    path = tmp_path / "config" / "policy.yml"
    path.write_text(POLICY)
    return path


def test_a_mistyped_argument_of_a_rule_stops_the_start_and_names_its_line(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["policy", "check"]) == 0
    policy.write_text(POLICY.replace("text:", "txt:"))
    capsys.readouterr()
    assert run(["policy", "check"]) == 2
    assert capsys.readouterr().err == (
        "config/policy.yml:6: args.txt: no tool that 'append_line' matches has this argument (did you mean 'text'?)\n"
    )


def test_a_mistyped_tool_of_a_rule_stops_the_start_and_names_its_line(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(POLICY.replace("append_line", "apend_line"))
    assert run(["policy", "check"]) == 2
    assert capsys.readouterr().err.startswith("config/policy.yml:4: tool: there is no tool 'apend_line'")


def test_a_glob_that_matches_no_tool_is_found_by_policy_check(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(POLICY.replace("append_line", '"apend_*"'))
    assert run(["policy", "check"]) == 5
    assert capsys.readouterr().out.splitlines()[0] == (
        "config/policy.yml:4: no-secrets: can never win: no tool matches 'apend_*' (did you mean 'append_line'?)"
    )
