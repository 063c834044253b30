"""Text with ``{name}`` for an argument and ``${NAME}`` for a variable; ``{{`` and ``}}`` are braces."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_TOKEN = re.compile(r"\{\{|\}\}|\$\{([^{}]*)\}|\{([^{}]*)\}|[{}]")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Argument:
    """The place of one argument's text."""

    name: str


@dataclass(frozen=True)
class Variable:
    """The place of one environment variable's value."""

    name: str


@dataclass(frozen=True)
class Template:
    """A parsed text: literal parts, arguments and variables in their order."""

    parts: tuple[str | Argument | Variable, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if isinstance(part, Argument))

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if isinstance(part, Variable))

    @property
    def whole_argument(self) -> str | None:
        """The argument's name if the text is exactly one ``{name}``."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only.name if isinstance(only, Argument) else None

    def fill(self, argument: Callable[[str], str], variable: Callable[[str], str]) -> str:
        """Put in the texts that the two functions give."""
        texts = []
        for part in self.parts:
            match part:
                case Argument(name):
                    texts.append(argument(name))
                case Variable(name):
                    texts.append(variable(name))
                case str():
                    texts.append(part)
        return "".join(texts)


def parse_template(text: str, *, variables: bool) -> Template:
    """Read a template; with `variables` false, ``${NAME}`` has no meaning of its own.

    Raises:
        ValueError: a brace stands alone, or a variable's name is none.
    """
    parts: list[str | Argument | Variable] = []
    literal = ""
    position = 0
    for token in _TOKEN.finditer(text):
        literal += text[position : token.start()]
        position = token.end()
        found = token.group()
        part: Argument | Variable
        if found in ("{{", "}}"):
            literal += found[0]
            continue
        if found in ("{", "}"):
            raise ValueError(f"the brace {found!r} in {text!r} stands alone; write {found * 2!r} for the character")
        if found.startswith("$") and variables:
            if not _ENV_NAME.match(token.group(1)):
                raise ValueError(f"{found!r} names no environment variable")
            part = Variable(token.group(1))
        else:
            literal += "$" if found.startswith("$") else ""
            part = Argument(token.group(1) if found.startswith("$") else token.group(2))
        parts += [literal, part] if literal else [part]
        literal = ""
    literal += text[position:]
    return Template((*parts, literal) if literal else tuple(parts))
