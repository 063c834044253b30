"""Globs on the files of a project: ``*`` stays within a name, ``**`` spans folders, as in .gitignore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from butler.globs import Matcher, compile_glob


def first_match(paths: Iterable[str], globs: Sequence[str]) -> str | None:
    """The first path (relative, with ``/``) that one of the globs matches.

    A glob without ``/`` is about the name in any folder: ``*.py`` is ``**/*.py``.
    """
    compiled = [_compile(glob) for glob in globs]
    return next((path for path in paths if any(_matches(glob, path.split("/")) for glob in compiled)), None)


def _compile(glob: str) -> tuple[Matcher | None, ...]:
    parts = glob.removeprefix("./").strip("/").split("/") if "/" in glob else ["**", glob]
    found: list[Matcher | None] = []
    for part in parts:
        matcher = None if part == "**" else compile_glob(part)
        if matcher is not None or not found or found[-1] is not None:
            found.append(matcher)
    return tuple(found)


def _matches(glob: tuple[Matcher | None, ...], names: Sequence[str]) -> bool:
    """Whether the glob matches all names; `reached` are the positions in the glob, so that nothing is tried twice."""
    reached = _past_spans(glob, {0})
    for name in names:
        following = set()
        for position in reached:
            if position < len(glob):
                matcher = glob[position]
                if matcher is None:
                    following.add(position)
                elif matcher(name):
                    following.add(position + 1)
        reached = _past_spans(glob, following)
        if not reached:
            return False
    # A span at the end takes what is inside a folder, not the folder's own name.
    return len(glob) in reached


def _past_spans(glob: tuple[Matcher | None, ...], positions: set[int]) -> set[int]:
    return positions | {place + 1 for place in positions if place < len(glob) and glob[place] is None}
