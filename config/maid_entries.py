"""The keys of maid_registry.yml and the type of each (D2)."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from config.maid_commands import Arguments
from config.maid_profile import ProfileEntry, Text, Timeout
from config.strict import Entry
from config.verdicts import WrittenVerdict

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _host(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
            raise ValueError(
                f"expected a host alone, such as 'build.example' or '10.0.0.7', got {value[:80]!r}"
            ) from None
    return value


HostName = Annotated[str, AfterValidator(_host)]
Count = Annotated[int, Field(ge=1)]


class LimitsEntry(Entry):
    """What one attempt may use; times in seconds."""

    session_ready: Timeout = 60.0
    silence: Timeout = Field(300.0, description="Without any output or event")
    output_bytes: Count = 8 * 1024 * 1024
    tool_calls: Count = 200
    equal_calls: Annotated[int, Field(ge=2)] = Field(4, description="The same call that often in a row is a loop")
    equal_lines: Annotated[int, Field(ge=2)] = Field(200, description="The same output line that often is a loop")
    permission_wait: Timeout = Field(30.0, description="Then the attempt is run again after the verdict")
    model_requests: Count = 200
    tokens: Count = 2_000_000


class EndpointEntry(Entry):
    """The OpenAI-compatible provider of an agent."""

    base_url: Text
    api_key_env: VariableName | None = Field(None, description="The variable with the key")
    proxy: bool = Field(True, description="Speak through Butler's own proxy, which keeps the key from the agent")
    url_variable: VariableName = "OPENAI_BASE_URL"
    url_suffix: str = "/v1"
    key_variable: VariableName = "OPENAI_API_KEY"

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        parts = urlsplit(value)
        _ = parts.port
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("expected a URL such as 'https://host/v1'")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a key must not stand in the URL; name its variable in api_key_env")
        return value.rstrip("/")


class MaidEntry(Entry):
    """One maid of the file."""

    maid_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="Unique")
    kind: Literal["script", "cli", "acp", "goose"]
    label: Text | None = Field(None, description="Its name for people; default: maid_id")
    provider: str = ""
    model: Text | None = None
    role: str = ""
    command_template: list[Annotated[str, Field(pattern=r"^[^\x00]*$")]] | None = Field(
        None,
        description="Argument list, no shell; {instruction} {project_root} {prompt_file} {intent} {model}. "
        "Default of kind goose: [goose, acp, --with-builtin, developer]",
    )
    env: list[VariableName] = Field([], description="Names of variables passed through")
    variables: dict[VariableName, str] = Field({}, description="Variables set as written")
    enabled: bool = True
    timeout: Timeout = Field(900.0, description="Seconds for one attempt, then all its processes are killed")
    permission: WrittenVerdict = Field("approve", description="For its permission requests that no rule matches")
    launch_verdict: Literal["allow", "approve", "ask"] = Field("approve", description="May it start without asking")
    verification_profile: ProfileEntry = ProfileEntry()
    limits: LimitsEntry = LimitsEntry()
    endpoint: EndpointEntry | None = None
    mode: Text | None = Field(None, description="Session mode of an ACP agent")
    sandbox: Literal["none", "bubblewrap"] = "none"
    include_uncommitted: bool = Field(True, description="Its tree has what is not committed yet, too")
    keep_tree: Literal["never", "failed", "always"] = Field("never", description="Keep its tree as evidence afterwards")

    @field_validator("variables", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        # Checked one by one, so that the fault says what to do about a number.
        for name, item in value.items() if isinstance(value, dict) else ():
            if not isinstance(item, str):
                raise ValueError(f"the value of {name!r} must be text; put it in quotes")
            if "\0" in item:
                raise ValueError(f"the value of {name!r} has the NUL character")
        return value


class RestEntry(Entry):
    """Everything beside the maids."""

    allowed_commands: list[Arguments] = Field([], description="What checks may run, item by item")
    allowed_hosts: list[HostName] = Field([], description="Hosts other than this one that checks may ask")
    project_roots: list[Text] = Field([], description="Folders that maids may work in or below; absolute or ~")
    most_at_once: Annotated[int, Field(ge=1, le=32)] = Field(4, description="Further maids wait for their turn")


class MaidsDocument(RestEntry):
    """The whole file, for the published schema."""

    maids: list[MaidEntry] = Field([])
