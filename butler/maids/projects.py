"""Which folder a maid may work for: the allowlist of project roots, with links resolved (D8, D11)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from butler.errors import ButlerError
from config.projects_file import ProjectDefinition, unknown_project


def resolve_project(text: str, roots: Iterable[Path]) -> Path:
    """The folder that a caller names, if it is one of the roots or lies below one.

    Args:
        text: an absolute path, or one that begins with ``~/``.
        roots: `project_roots` of the registry.

    Returns:
        The path with all links resolved.

    Raises:
        ButlerError: ``invalid_request`` for a path that is not absolute or no folder, ``forbidden`` for one outside of
            all roots, whether it exists or not.
    """
    path = _path(text)
    if "\0" in text or not path.is_absolute():
        raise ButlerError("invalid_request", f"The project {text!r} must be the absolute path of a folder.")
    try:
        path = path.resolve()
        allowed = [root.resolve() for root in roots]
    except (OSError, RuntimeError) as error:  # links in a circle
        raise ButlerError("invalid_request", f"The project {text!r} can't be looked up: {error}.") from None
    if not any(path.is_relative_to(root) for root in allowed):
        raise ButlerError(
            "forbidden",
            f"The project {text!r} is not inside any of the project_roots of maid_registry.yml. "
            "Whoever runs Butler can add its folder there.",
        )
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise ButlerError("invalid_request", f"The project {text!r} can't be looked at: {error.strerror}.") from None
    if not is_folder:
        raise ButlerError("invalid_request", f"The project {text!r} is no folder.")
    return path


def project_of(path: Path, projects: Iterable[ProjectDefinition]) -> ProjectDefinition | None:
    """The project that a folder belongs to, the innermost one; None where projects.yml says nothing of it (D12)."""
    around = [project for project in projects if path.is_relative_to(project.project_root)]
    return max(around, key=lambda project: len(project.project_root.parts), default=None)


def folder_of_name(text: str, projects: Iterable[ProjectDefinition]) -> str:
    """The folder of a project that is called by its name; a path stays as it is.

    Raises:
        ButlerError: ``invalid_request`` for a name that no project has, where there are projects.
    """
    projects = tuple(projects)
    if not projects or "/" in text or text.startswith("~"):
        return text
    found = next((project for project in projects if project.name == text), None)
    if found is None:
        raise ButlerError("invalid_request", unknown_project(text, projects))
    return str(found.project_root)


def folder_meant(text: str, projects: Iterable[ProjectDefinition]) -> str:
    """The folder that a caller means, in the one spelling that rules, grants and people see: links resolved, no ``..``.

    Raises:
        ButlerError: ``invalid_request`` for a name that no project has.
    """
    found = folder_of_name(text, projects)
    if not found.startswith(("/", "~/")):
        return found
    try:
        return str(_path(found).resolve())
    except (OSError, RuntimeError, ValueError):
        return found  # `resolve_project` says what is wrong with it.


def _path(text: str) -> Path:
    return Path.home() / text[2:] if text.startswith("~/") else Path(text)
