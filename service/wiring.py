"""Putting the house together: settings and YAML in, faculties out (config contract)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from butler.agents.switchboard import Switchboard
from butler.approvals.judge import Judge
from butler.approvals.ledger import Ledger
from butler.approvals.policy import Policy
from butler.errors import ConfigError, Problem
from butler.maids.desk import Desk
from butler.mcp.servers import McpServers
from butler.memory.blocks import MemoryBlocks
from butler.memory.compaction import CompactionConfig, Compactor
from butler.models.gateway import ModelConfig, ModelGateway
from butler.redact import Redactor, secret_values
from butler.storage.database import Database
from butler.tools.built_in import benign_toolset
from butler.tools.declared import declared_toolset
from butler.tools.registry import ToolRegistry, Toolset
from butler.tools.remembering import memory_tools
from butler.tools.searching import search_tool
from config.maid_types import MaidRegistryFile, RouteDefinition
from config.maids_file import load_maids_file
from config.mcp_file import McpServerDefinition, load_mcp_file
from config.notify_file import ChannelDefinition, load_notify_file, owners_channels
from config.policy_file import PolicyFile, load_policy_file
from config.projects_file import ProjectDefinition, load_projects_file
from config.routes_file import load_routes_file
from config.settings import Settings
from config.tools_file import load_tools_file
from nodes.context import Faculties
from service.agents import agent_toolsets
from service.delegation import desk_of, maid_tools, supervisor_of
from service.maidproxy import provider_access
from service.mcp_names import known_with_brought
from service.notify.channels import secrets_of_channels


@dataclass(frozen=True)
class Configuration:
    """Everything read from files and environment, checked, before anything is opened."""

    settings: Settings
    toolsets: tuple[Toolset, ...]
    policy: Policy
    channels: tuple[ChannelDefinition, ...] = ()
    secret_names: frozenset[str] = frozenset()
    """Variables that are secrets by their use, whatever they are called."""
    maids: MaidRegistryFile = field(default_factory=MaidRegistryFile)
    routes: tuple[RouteDefinition, ...] = ()
    projects: tuple[ProjectDefinition, ...] = ()
    mcp: tuple[McpServerDefinition, ...] = ()

    def redactor(self, environ: Mapping[str, str]) -> Redactor:
        """The one redactor of a house: what is stored, told and logged is masked alike."""
        written = {secret for server in self.mcp for secret in server.secrets}
        return Redactor.from_environment(
            self.settings, environ, self.secret_names,
            {*secrets_of_channels(self.channels), *secrets_of_projects(self.projects, self.secret_names), *written},
        )  # fmt: skip

    @property
    def tools(self) -> ToolRegistry:
        """All tools, for looking at; the built-in ones run only from `build_faculties` on."""
        return ToolRegistry(
            [house_tools(None, Redactor([])), *agent_toolsets(), maid_tools(self.desk()), *self.toolsets]
        )

    def desk(self, environ: Mapping[str, str] | None = None, database: Database | None = None) -> Desk:
        """What reads calls of `delegate`; without `environ` and `database` for looking at."""
        folder = self.settings.config_dir.absolute()
        return desk_of(self.maids, self.routes, folder, environ, database, self.projects)


def read_configuration(settings: Settings, environ: Mapping[str, str], *, channels: bool = True) -> Configuration:
    """Read tools, policy, maids, routes and who is to be notified. Raises ConfigError with every fault of all of them.

    Args:
        channels: False where nothing is sent: the variables of notify.yml may be set for the server alone.
    """
    problems: list[Problem] = []
    code = "invalid_config"
    toolsets: tuple[Toolset, ...] = ()
    policy_file = PolicyFile()
    secret_names: set[str] = set()
    try:
        definitions = load_tools_file(settings.config_dir / "tools.yml", environ)
        toolsets = (declared_toolset(definitions, environ),) if definitions else ()
        ToolRegistry([house_tools(None, Redactor([])), *agent_toolsets(), maid_tools(Desk()), *toolsets])
        secret_names.update(name for definition in definitions for name in definition.secret_variables)
    except ConfigError as error:
        problems += error.problems
        code = error.code
    try:
        policy_file = load_policy_file(settings.config_dir / "policy.yml")
    except ConfigError as error:
        problems += error.problems
    maids: MaidRegistryFile | None = None
    routes: tuple[RouteDefinition, ...] = ()
    try:
        maids = load_maids_file(settings.config_dir / "maid_registry.yml")
    except ConfigError as error:
        problems += error.problems
    try:
        routes = load_routes_file(settings.config_dir / "intent_maid_routes.yml", maids)
    except ConfigError as error:
        problems += error.problems
    projects: tuple[ProjectDefinition, ...] = ()
    if maids is not None:
        try:
            projects = load_projects_file(settings.config_dir / "projects.yml", maids, routes)
        except ConfigError as error:
            problems += error.problems
    mcp: tuple[McpServerDefinition, ...] = ()
    try:
        mcp = load_mcp_file(settings.config_dir / "mcp.json", environ)
    except ConfigError as error:
        problems += error.problems
    found_channels: tuple[ChannelDefinition, ...] = ()
    if channels:
        try:
            found_channels = read_channels(settings, environ)
        except ConfigError as error:
            problems += error.problems
    policy = Policy(policy_file)
    if not problems:
        known = ToolRegistry(
            [
                house_tools(None, Redactor([])),
                *agent_toolsets(),
                maid_tools(Desk(maids or MaidRegistryFile(), projects=projects)),
                *toolsets,
            ]
        )
        names = known_with_brought(known.names(), policy.definition.rules, mcp)
        problems += (*policy.mistaken_tools(names), *policy.mistaken_args(known.specs()))
    if problems:
        raise ConfigError(problems, code)
    secret_names.update(name for channel in found_channels for name in channel.variables)
    secret_names.update(_keys_of_maids(maids))
    for project in projects:
        secret_names.update(_keys_of_maids(project.registry))
    secret_names.update(name for server in mcp for name in server.secret_variables)
    return Configuration(
        settings, toolsets, policy, found_channels, frozenset(secret_names), maids or MaidRegistryFile(), routes,
        projects, mcp,
    )  # fmt: skip


def _keys_of_maids(maids: MaidRegistryFile | None) -> set[str]:
    """The variables with the keys of the maids' providers."""
    endpoints = [maid.endpoint for maid in maids.maids if maid.endpoint] if maids else []
    return {endpoint.api_key_env for endpoint in endpoints if endpoint.api_key_env}


def secrets_of_projects(projects: Sequence[ProjectDefinition], names: Collection[str]) -> list[str]:
    """The values of secret variables in the files of the projects."""
    return [value for one in projects for value in secret_values(one.variables, names)]


def read_channels(settings: Settings, environ: Mapping[str, str]) -> tuple[ChannelDefinition, ...]:
    """Who is to be notified through what. Raises ConfigError with every fault of the variable and of notify.yml."""
    problems: list[Problem] = []
    found: list[ChannelDefinition] = []
    for read in (
        partial(owners_channels, settings.notify_urls),
        partial(load_notify_file, settings.config_dir / "notify.yml", environ),
    ):
        try:
            found += read()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def house_tools(database: Database | None, redactor: Redactor) -> Toolset:
    """The built-in tools; without a database they can be read about and ruled on, not run."""
    opened = cast(Database, database)
    return benign_toolset(search_tool(opened, redactor), *memory_tools(opened, redactor))


def build_faculties(configuration: Configuration, database: Database, environ: Mapping[str, str]) -> Faculties:
    """The faculties over an open database."""
    settings = configuration.settings
    model_config = ModelConfig.from_settings(settings)
    model = ModelGateway(model_config) if model_config else None
    redactor = configuration.redactor(environ)
    desk = configuration.desk(environ, database)
    board = Switchboard()
    own = [house_tools(database, redactor), *agent_toolsets(database, board, settings.agent_timeout)]
    tools = ToolRegistry([*own, maid_tools(desk), *configuration.toolsets])
    mcp = McpServers(configuration.mcp, environ, settings.data_dir) if configuration.mcp else None
    if mcp is not None:
        mcp.bring_into(tools)
    judge = Judge(configuration.policy, tools, redactor)
    return Faculties(
        ledger=Ledger(database, guarded=True),
        judge=judge,
        tools=tools,
        model=model,
        model_missing=settings.model_missing,
        compactor=_compactor(settings, model),
        redactor=redactor,
        context_limit=settings.context_limit,
        max_tool_rounds=settings.max_tool_rounds,
        memory=MemoryBlocks(database, settings.context_limit),
        agents=board,
        mcp=mcp,
        maids=supervisor_of(
            desk, database=database, judge=judge, tools=tools, redactor=redactor, data_dir=settings.data_dir,
            environ=environ, access=provider_access, hidden=_database_files(settings),
        ),
    )  # fmt: skip


def _database_files(settings: Settings) -> tuple[Path, ...]:
    """The database and what SQLite writes beside it, wherever they are."""
    path = settings.database_path
    return tuple(path.with_name(path.name + ending) for ending in ("", "-wal", "-shm"))


def hidden_model(settings: Settings, model: ModelGateway | None) -> ModelGateway | None:
    """The model for hidden calls: the one for compaction if one is set, else the butler's; None when that is off."""
    if not settings.compaction.enabled:
        return None
    own = ModelConfig.for_compaction(settings)
    return ModelGateway(own) if own else model


def _compactor(settings: Settings, model: ModelGateway | None) -> Compactor | None:
    """The compactor with its own model if one is set, else the butler's; None when off or without any model."""
    wanted, speaker = settings.compaction, hidden_model(settings, model)
    if speaker is None:
        return None
    return Compactor(
        speaker,
        CompactionConfig(
            trigger_tokens=wanted.trigger_tokens,
            trigger_messages=wanted.trigger_messages,
            recent_window=wanted.recent_window,
            timeout=wanted.timeout,
            request_tokens=settings.context_limit,
        ),
    )
