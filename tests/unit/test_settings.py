"""Settings come from the environment and .env; a fault names the variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.problems import ConfigError
from config.settings import load_settings, unknown_variables
from service.watching.opening import coze_is_wanted


def faults(environ: dict[str, str], cwd: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(environ, cwd)
    return [str(problem) for problem in caught.value.problems]


def test_without_any_variable_the_defaults_of_the_contract_hold(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)
    assert (settings.host, settings.port) == ("127.0.0.1", 8710)
    assert settings.data_dir == tmp_path / ".butler"
    assert settings.config_dir == tmp_path / "config"
    assert settings.database_path == tmp_path / ".butler" / "butler.db"
    assert (settings.model_timeout, settings.context_limit, settings.max_tool_rounds) == (60, 32768, 8)
    compaction = settings.compaction
    assert compaction.enabled
    assert (compaction.trigger_tokens, compaction.trigger_messages) == (12000, 60)
    assert (compaction.recent_window, compaction.timeout) == (8, 30)
    assert compaction.model is None
    assert settings.model_missing == ("BUTLER_BASE_URL", "BUTLER_MODEL")
    assert not settings.model_configured


def test_the_process_environment_wins_over_the_file_and_empty_counts_as_unset(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("BUTLER_PORT=1\nBUTLER_HOST=::1\nexport BUTLER_MODEL='m $x'\n")
    settings = load_settings({"BUTLER_PORT": "0", "BUTLER_HOST": "", "BUTLER_DATA_DIR": ""}, tmp_path)
    assert (settings.port, settings.host, settings.model) == (0, "::1", "m $x")
    assert settings.model_missing == ("BUTLER_BASE_URL",)


def test_the_compaction_variables_are_read(tmp_path: Path) -> None:
    names = {
        "ENABLED": "false",
        "BASE_URL": "http://h/v1/",
        "API_TOKEN": "tok",
        "MODEL": "small",
        "TRIGGER_TOKENS": "5",
        "TRIGGER_MESSAGES": "6",
        "RECENT_WINDOW": "7",
        "TIMEOUT": "0.5",
    }
    environ = {f"BUTLER_CONTEXT_COMPACTION_{name}": value for name, value in names.items()}
    compaction = load_settings(environ, tmp_path).compaction
    assert compaction.api_token is not None
    assert compaction.api_token.get_secret_value() == "tok"
    assert compaction.model_dump(exclude={"api_token"}) == {
        "enabled": False,
        "base_url": "http://h/v1",
        "model": "small",
        "trigger_tokens": 5,
        "trigger_messages": 6,
        "recent_window": 7,
        "timeout": 0.5,
    }


def test_a_configured_model_misses_nothing_and_secrets_do_not_print(tmp_path: Path) -> None:
    environ = {
        "BUTLER_BASE_URL": "https://model.example/v1",
        "BUTLER_MODEL": "m",
        "BUTLER_API_TOKEN": "sk-secret",
        "BUTLER_OWNER_TOKEN": "own-secret",
    }
    settings = load_settings(environ, tmp_path)
    assert settings.model_configured
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("BUTLER_PORT", "65536", "65535"),
        ("BUTLER_PORT", "http", "integer"),
        ("BUTLER_MODEL_TIMEOUT", "nan", "finite"),
        ("BUTLER_MODEL_TIMEOUT", "0", "greater than 0"),
        ("BUTLER_BASE_URL", "model.example", "expected a URL"),
        ("BUTLER_BASE_URL", "http://", "expected a URL"),
        ("BUTLER_DATABASE_URL", "postgresql://h/db", "PostgreSQL is not supported"),
        ("BUTLER_DATABASE_URL", "sqlite://", "sqlite:///PATH"),
        ("BUTLER_OWNER_TOKEN", "two words", "without spaces"),
        ("BUTLER_CONTEXT_LIMIT", "10", "1024"),
        ("BUTLER_MAX_TOOL_ROUNDS", "0", "greater than or equal to 1"),
        ("BUTLER_CONTEXT_COMPACTION_ENABLED", "perhaps", "boolean"),
        ("OBSERVABILITY_COZELOOP_ENABLED", "perhaps", "boolean"),
        ("OBSERVABILITY_COZELOOP_ENABLD", "true", "did you mean 'OBSERVABILITY_COZELOOP_ENABLED'?"),
        ("OBSERVABILITY_SERVICENAME", "house", "did you mean 'OBSERVABILITY_SERVICE_NAME'?"),
        ("BUTLER_CONTEXT_COMPACTION_RECENT_WINDOW", "-1", "greater than or equal to 1"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_was_expected(name: str, value: str, part: str, tmp_path: Path) -> None:
    (fault,) = faults({name: value}, tmp_path)
    assert fault.startswith(f"environment:0: {name}: ")
    assert part in fault


def test_every_fault_of_the_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\n\nBUTLER_PORT=x\nBUTLER_CONTEXT_COMPACTION_TIMEOUT=y\n")
    found = faults({}, tmp_path)
    assert [fault.split(": ")[:2] for fault in found] == [
        [".env:3", "BUTLER_PORT"],
        [".env:4", "BUTLER_CONTEXT_COMPACTION_TIMEOUT"],
    ]


def test_a_line_of_the_file_that_is_no_assignment_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("BUTLER_PORT=1\nBUTLER_HOST\n")
    assert faults({}, tmp_path) == [".env:2: BUTLER_HOST: expected NAME=value"]


def test_the_token_itself_is_not_in_the_fault(tmp_path: Path) -> None:
    (fault,) = faults({"BUTLER_OWNER_TOKEN": "geheim geheim"}, tmp_path)
    assert "geheim" not in fault


def test_a_database_path_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    assert load_settings({"BUTLER_DATABASE_URL": "sqlite:///d/x.db"}, tmp_path).database_path == (
        tmp_path / "d" / "x.db"
    )
    assert load_settings({"BUTLER_DATABASE_URL": "sqlite:////d/x.db"}, tmp_path).database_path == Path("/d/x.db")


def test_a_misspelled_variable_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    environ = {"BUTLER_BASEURL": "x", "BUTLER_CONTEXT_COMPACTION_MODLE": "y", "BUTLER_PORT": "1", "OTHER": "z"}
    found = {problem.key: problem.message for problem in unknown_variables(environ, tmp_path)}
    assert found.keys() == {"BUTLER_BASEURL", "BUTLER_CONTEXT_COMPACTION_MODLE"}
    assert "did you mean 'BUTLER_BASE_URL'?" in found["BUTLER_BASEURL"]
    assert "did you mean 'BUTLER_CONTEXT_COMPACTION_MODEL'?" in found["BUTLER_CONTEXT_COMPACTION_MODLE"]


@pytest.mark.parametrize("value", ["true", "1", "yes", "on", "T", "y", "false", "0", "no", "off", ""])
def test_what_switches_cozeloop_on_is_the_same_for_the_settings_and_for_the_traces(value: str, tmp_path: Path) -> None:
    environ = {"OBSERVABILITY_COZELOOP_ENABLED": value}
    assert load_settings(environ, tmp_path).observability.cozeloop_enabled is coze_is_wanted(environ)


def test_another_programs_variable_with_the_same_beginning_stops_nothing_and_is_named(tmp_path: Path) -> None:
    environ = {"OBSERVABILITY_DASHBOARD_URL": "x", "OBSERVABILITY_SERVICE_NAME": "house"}
    assert load_settings(environ, tmp_path).observability.service_name == "house"
    assert [problem.key for problem in unknown_variables(environ, tmp_path)] == ["OBSERVABILITY_DASHBOARD_URL"]
