"""The settings of the server: one frozen object out of environment variables (config contract)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
)

from config.environment import Environment, read_environment
from config.problems import ConfigError, Problem, did_you_mean, nearest

T = TypeVar("T", bound=BaseModel)

PREFIX = "BUTLER_"
COMPACTION_PREFIX = "BUTLER_CONTEXT_COMPACTION_"
OBSERVABILITY_PREFIX = "OBSERVABILITY_"
OTHER_VARIABLES = (
    "BUTLER_CRASH_AT", "BUTLER_ACTION_ID", "BUTLER_URL", "BUTLER_TOKEN", "BUTLER_INSECURE", "BUTLER_ENV_PATH",
)  # fmt: skip
"""Variables of the crash tests, of tools and of clients, and the file of variables itself: no settings."""


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("expected a URL such as 'https://host/v1'")
    if parts.query or parts.fragment:
        raise ValueError("expected a URL without '?' and '#'")
    return value.rstrip("/")


def _bearer(value: SecretStr) -> SecretStr:
    # Anything else could not travel in an Authorization header.
    if not all("!" <= char <= "~" for char in value.get_secret_value()):
        raise ValueError("expected visible ASCII characters without spaces")
    return value


def _sqlite_url(value: str) -> str:
    if value.startswith(("postgres:", "postgresql:", "postgresql+", "postgres+")):
        raise ValueError("PostgreSQL is not supported by this version; use sqlite:///PATH or leave it empty")
    path = value.removeprefix("sqlite:///")
    if path == value or not path or path == ":memory:" or "?" in path:
        raise ValueError("expected sqlite:///PATH, the path of one database file")
    return value


HttpUrl = Annotated[str, AfterValidator(_http_url)]
Token = Annotated[SecretStr, AfterValidator(_bearer)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class CompactionSettings(BaseModel):
    """When and with which model older messages fold into the summary (C2, C4); None: the butler's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    base_url: HttpUrl | None = None
    api_token: Token | None = None
    model: Name | None = None
    trigger_tokens: Annotated[int, Field(ge=1)] = 12_000
    trigger_messages: Annotated[int, Field(ge=1)] = 60
    recent_window: Annotated[int, Field(ge=1)] = 8
    timeout: Seconds = 30.0


class ObservabilitySettings(BaseModel):
    """Whether traces go to CozeLoop, and under which name (B8)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cozeloop_enabled: bool = False
    service_name: Name | None = None


class Settings(BaseModel):
    """Everything the server takes from its environment; paths are absolute."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    host: Name = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8710
    data_dir: Path
    config_dir: Path
    owner_token: Token | None = None
    public_url: HttpUrl | None = None
    notify_urls: SecretStr | None = None
    database_url: Annotated[str, AfterValidator(_sqlite_url)]
    base_url: HttpUrl | None = None
    api_token: Token | None = None
    model: Name | None = None
    model_timeout: Seconds = 60.0
    fallback_model: Name | None = None
    context_limit: Annotated[int, Field(ge=1_024)] = 32_768
    max_tool_rounds: Annotated[int, Field(ge=1, le=1_000)] = 8
    agent_timeout: Seconds = 30.0
    studio_admin: bool = False
    compaction: CompactionSettings = CompactionSettings()
    observability: ObservabilitySettings = ObservabilitySettings()

    @property
    def database_path(self) -> Path:
        """The file of `database_url`."""
        return Path(self.database_url.removeprefix("sqlite:///"))

    @property
    def model_missing(self) -> tuple[str, ...]:
        """The variables to set before a model can be asked."""
        needed = {"BUTLER_BASE_URL": self.base_url, "BUTLER_MODEL": self.model}
        return tuple(name for name, value in needed.items() if value is None)

    @property
    def model_configured(self) -> bool:
        """Whether there is a model to ask; commands work without one."""
        return not self.model_missing


def load_settings(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Read the settings from the process environment and ``.env`` of the working directory.

    Raises:
        ConfigError: one problem per variable whose value can't be used.
    """
    cwd = (cwd or Path.cwd()).absolute()
    environment = read_environment(environ, cwd)
    problems: list[Problem] = []
    nested = _build(CompactionSettings, COMPACTION_PREFIX, environment, {}, problems)
    watched = _build(ObservabilitySettings, OBSERVABILITY_PREFIX, environment, {}, problems)
    problems += _misspelt(environment)
    data_dir = _directory(environment, "BUTLER_DATA_DIR", cwd, ".butler")
    own: dict[str, Any] = {
        "data_dir": data_dir,
        "config_dir": _directory(environment, "BUTLER_CONFIG_DIR", cwd, "config"),
        "database_url": f"sqlite:///{data_dir / 'butler.db'}",
        "compaction": nested or CompactionSettings(),
        "observability": watched or ObservabilitySettings(),
    }
    settings = _build(Settings, PREFIX, environment, own, problems)
    if problems or settings is None:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    path = cwd / settings.database_path.expanduser()
    return settings.model_copy(update={"database_url": f"sqlite:///{path}"})


def unknown_variables(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> list[Problem]:
    """Name the variables that are spelled like Butler's and that it does not know; it ignores them."""
    environment = read_environment(environ, cwd)
    fields = [PREFIX + name.upper() for name in Settings.model_fields if name not in ("compaction", "observability")]
    fields += [COMPACTION_PREFIX + name.upper() for name in CompactionSettings.model_fields]
    known = {*fields, *OTHER_VARIABLES, *_observability_names()}
    return [
        environment.problem(name, f"this variable is not known and ignored{did_you_mean(name, known)}")
        for name in sorted(environment.values)
        if name.startswith((PREFIX, OBSERVABILITY_PREFIX)) and name not in known
    ]


def _observability_names() -> list[str]:
    return [OBSERVABILITY_PREFIX + name.upper() for name in ObservabilitySettings.model_fields]


def _misspelt(environment: Environment) -> list[Problem]:
    """Variables that are nearly Butler's: what they switch would be off unnoticed. Other programs' own are let be."""
    known = [name.upper() for name in ObservabilitySettings.model_fields]
    found = [name for name in sorted(environment.values) if name.startswith(OBSERVABILITY_PREFIX)]
    meant = {name: nearest(name.removeprefix(OBSERVABILITY_PREFIX), known) for name in found}
    return [
        environment.problem(name, f"there is no such variable (did you mean {OBSERVABILITY_PREFIX + near!r}?)")
        for name, near in meant.items()
        if near is not None and near != name.removeprefix(OBSERVABILITY_PREFIX)
    ]


def _directory(environment: Environment, name: str, cwd: Path, default: str) -> Path:
    return cwd / Path(environment.get(name) or default).expanduser()


def _build(
    kind: type[T], prefix: str, environment: Environment, own: dict[str, Any], problems: list[Problem]
) -> T | None:
    raw = dict(own)
    for field in kind.model_fields:
        value = environment.get(prefix + field.upper())
        if value is not None and not isinstance(own.get(field), Path | BaseModel):
            raw[field] = value
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            name = prefix + str(fault["loc"][0]).upper()
            message = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            message = message if message.startswith(("expected", "Postgre")) else f"expected {message}"
            problems.append(environment.problem(name, message))
        return None
