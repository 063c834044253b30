"""Projects on the command line: by folder, or by their names in projects.yml (D12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from butler.errors import ButlerError
from butler.maids.projects import folder_of_name
from butler.types import Json
from config.projects_file import ProjectDefinition
from service.cli.plain import visible


def as_sent(text: str) -> str:
    """What `--project` says, as the server is told it: the name of a project, or the absolute path of a folder."""
    if "/" not in text and text not in (".", "..", "~") and not Path(text).is_dir():
        return text
    return str(Path(text).expanduser().absolute())


def folder_of(text: str, projects: Iterable[ProjectDefinition]) -> Path:
    """The folder that `--project` means, links resolved. Raises typer.BadParameter where there is none."""
    try:
        folder = Path(folder_of_name(as_sent(text), projects))
    except ButlerError as error:
        raise typer.BadParameter(error.detail, param_hint="--project") from None
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {text!r}", param_hint="--project")
    return folder.resolve()


def lines_of(projects: Iterable[Json]) -> Iterator[str]:
    """Each project and what it brings along, for people."""
    for one in projects:
        yield visible(f"project {one['name']}: {one['project_root']}{'' if one['exists'] else ' (no such folder)'}")
        for key in ("config_dir", "env_path", "issue_template_dir", "session_logs_dir"):
            if one[key]:
                more = f" ({', '.join(one['variables']) or 'no variables'})" if key == "env_path" else ""
                yield visible(f"    {key}: {one[key]}{more}")
