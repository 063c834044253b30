"""What `butler doctor` and /readyz say of MCP servers, with secrets masked (E5, F2)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from butler.redact import Redactor
from config.settings import load_settings
from service.doctor import Finding
from service.doctor_mcp import mcp_servers, ready_check
from service.wiring import read_configuration
from tests.support.mcp_links import RAW
from tests.support.workshop import Workshop


def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **servers: dict[str, object]) -> list[Finding]:
    config = tmp_path / "config"
    config.mkdir()
    Workshop(config).write_mcp(**servers)
    monkeypatch.setenv("BUTLER_CONFIG_DIR", str(config))
    monkeypatch.setenv("BUTLER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("A_KEY", "k3y-of-mine")
    environ = dict(os.environ)
    return list(mcp_servers(read_configuration(load_settings(), environ), environ))


def test_each_server_is_looked_at_and_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raw(mode: str) -> dict[str, object]:
        return {"command": sys.executable, "args": ["-S", "-E", str(RAW), mode], "env": {"WORD": "${A_KEY}"}}

    found = findings(
        tmp_path, monkeypatch, good=raw("good"), odd=raw("odd"), ends=raw("ends"),
        missing={"command": "no-such-program-k3y-of-mine"}, off={"command": "x", "enabled": False},
    )  # fmt: skip
    assert [(one.name.removeprefix("mcp server "), one.state) for one in found] == [
        ("good", "good"), ("odd", "note"), ("ends", "bad"), ("missing", "bad"), ("off", "note"),
    ]  # fmt: skip
    good, odd, ends, missing, _ = (one.detail for one in found)
    assert good == "1 tool(s) of raw 1"
    assert "left out: broken: its schema" in odd and "odd name: its name" in odd
    assert ends == "is not connected: it ended with exit status 3; it says: no key was given"
    assert "no-such-program-***" in missing and "install it" in missing


def test_headers_that_go_over_an_open_way_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = {"url": "http://mcp.invalid/mcp", "headers": {"Authorization": "x"}, "startup_timeout": 1}
    found = findings(tmp_path, monkeypatch, far=remote)
    assert "unencrypted" in found[0].detail and "mcp.invalid" in found[0].detail


def test_a_house_without_servers_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(tmp_path, monkeypatch) == []
    assert ready_check(None, Redactor([]), admin=True) == {}
