"""Which folder a maid may work for: the allowlist of project roots, with links resolved (D8, D11)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from butler.errors import ButlerError


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
    path = Path.home() / text[2:] if text.startswith("~/") else Path(text)
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
