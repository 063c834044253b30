"""Commands that no maid may run, whatever its permissions: installing packages, pushing, becoming root (D5, D7)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LONGEST = 8_000
"""Characters of a command that are looked at."""
DEEPEST = 4

_INSTALL = frozenset({"install", "i", "add", "update", "upgrade", "ci", "uninstall", "remove", "download"})
_INSTALLERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("pip", "pipx", "npm", "pnpm", "bun", "apt", "apt-get", "aptitude", "dnf", "yum", "apk"), _INSTALL),
    **dict.fromkeys(("conda", "mamba", "poetry", "brew", "gem", "snap", "zypper", "flatpak"), _INSTALL),
    "yarn": _INSTALL | {""},
    "uv": frozenset({"add", "sync", "remove"}),
    "cargo": frozenset({"install", "add"}),
    "go": frozenset({"install", "get"}),
    "bundle": frozenset({"install", "update", "add", ""}),
    "composer": frozenset({"install", "require", "update"}),
}
_WRAPPERS = frozenset(
    {"env", "time", "nohup", "exec", "command", "nice", "timeout", "stdbuf", "xargs", "setsid", "then"}
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
_WRITTEN_OUT = re.compile(r"[A-Za-z_]\w*=")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_HINT = re.compile("|".join(map(re.escape, (*_INSTALLERS, "sudo", "push", "pacman", "easy_install"))))
_BETWEEN = ";|&()`\n"
_VERSION = re.compile(r"(pip|python)\d[\d.]*\Z")


def forbidden_command(command: str | Sequence[str]) -> str | None:
    """Say what forbidden act a command is; None where it is none that is known.

    It reads shell text like a person who skims it: it finds what a maid does openly, and is no sandbox.
    """
    text = command[:LONGEST] if isinstance(command, str) else " ".join(word[:LONGEST] for word in command)
    return _forbidden(command, 0) if _HINT.search(text) else None


def command_of(raw_input: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    """The command in the arguments of a tool call, as the agents write it."""
    for key in ("command", "cmd", "script", "commandLine"):
        value = raw_input.get(key)
        if isinstance(value, str) and value:
            return value[:LONGEST]
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return tuple(item[:LONGEST] for item in value[:200])
    return None


def _forbidden(command: str | Sequence[str], depth: int) -> str | None:
    if depth > DEEPEST:
        return None
    for words in _commands(command[:LONGEST]) if isinstance(command, str) else [list(command)]:
        found = _act(words)
        if found is not None:
            return found
        for script in _inner(words):
            found = _forbidden(script, depth + 1)
            if found is not None:
                return found
    return None


def _commands(text: str) -> list[list[str]]:
    """The single commands of shell text; what is quoted, or stands in a here-document, is no command."""
    lexer = shlex.shlex(_HERE.sub(r"\3", text), posix=True, punctuation_chars=_BETWEEN)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and all(char in _BETWEEN for char in word):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        return [line.split() for line in text.splitlines()]
    return commands


def _inner(words: list[str]) -> Iterator[str]:
    """The scripts of ``bash -c SCRIPT``."""
    for index, word in enumerate(words[:-2]):
        if _name(word) in _SHELLS and re.fullmatch(r"-\w*c\w*", words[index + 1]):
            yield words[index + 2]


def _name(word: str) -> str:
    base = word.rsplit("/", 1)[-1]
    return _VERSION.sub(r"\1", base)


def _act(words: list[str]) -> str | None:
    words = list(words)
    while words and (_WRITTEN_OUT.match(words[0]) or _name(words[0]) in _WRAPPERS or words[0].startswith("-")):
        is_timeout = _name(words[0]) == "timeout"
        del words[: 2 if is_timeout and len(words) > 1 and not words[1].startswith("-") else 1]
    if not words:
        return None
    name = _name(words[0])
    if name == "sudo":
        return "sudo"
    if name == "python" and words[1:2] == ["-m"] and len(words) > 2:
        return _act(words[2:])
    if name == "uv" and words[1:2] in (["pip"], ["tool"]):
        return _act(["pip", *words[2:]])
    verbs = [word for word in words[1:] if not word.startswith("-")]
    verb = verbs[0] if verbs else ""
    if name in _INSTALLERS and verb in _INSTALLERS[name] and "--version" not in words and "--help" not in words:
        return f"installing packages ({' '.join([name, verb]).strip()})"
    if name == "pacman" and any(word.startswith("-S") for word in words[1:]):
        return "installing packages (pacman -S)"
    if name == "easy_install":
        return "installing packages (easy_install)"
    return "pushing (git push)" if name == "git" and _git_verb(words[1:]) == "push" else None


def _git_verb(words: list[str]) -> str:
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in ("-C", "-c", "--git-dir", "--work-tree") else 1]
    return words[0] if words else ""
