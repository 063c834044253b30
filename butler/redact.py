"""Known secret values masked in whatever is shown, stored as evidence or logged (F2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from butler.nesting import MOST_LEVELS
from butler.types import Json, ToolSpec
from config.settings import Settings

MASK = "***"
TOO_DEEP = "(nested too deeply to be shown)"
MIN_LENGTH = 6  # shorter values are ordinary words and numbers too often

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_COUNT_NAME = re.compile(r"_TOKENS\Z", re.IGNORECASE)


class Redactor:
    """Masks every occurrence of the given values, also as they read inside JSON text and URLs."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            value = secret.strip()
            if len(value) >= MIN_LENGTH:
                escaped = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
                # Answers of agents and tools are JSON, and stand as text in other JSON.
                twice = (json.dumps(one, ensure_ascii=False)[1:-1] for one in escaped)
                forms.update((value, *escaped, *twice, quote(value, safe="", errors="replace")))
        # The longest first, so that a secret which contains another is masked whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self.longest = len(ordered[0]) if ordered else 1
        """Characters of the longest form of a secret."""
        self._begins: dict[str, list[str]] = {}
        for form in ordered:
            self._begins.setdefault(form[0], []).append(form)
        self._first = re.compile(f"[{re.escape(''.join(self._begins))}]") if ordered else None

    @classmethod
    def from_environment(
        cls,
        settings: Settings,
        environ: Mapping[str, str],
        extra_names: Iterable[str] = (),
        extra_values: Iterable[str] = (),
    ) -> Redactor:
        """Take the values of variables that are named like secrets, and the secrets of the settings.

        Args:
            extra_names: more variables that hold secrets whatever they are called.
            extra_values: secrets that are known otherwise.
        """
        secrets = secret_values(environ, extra_names)
        for holder in (settings, settings.compaction):
            values = (getattr(holder, name) for name in type(holder).model_fields)
            secrets += [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        secrets += extra_values
        return cls(secrets)

    def text(self, text: str) -> str:
        """Mask in a text."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Every place of a text that would be masked."""
        return self._pattern.finditer(text) if self._pattern else iter(())

    def first_match(self, text: str, start: int) -> re.Match[str] | None:
        """The first place from `start` on that would be masked."""
        return self._pattern.search(text, start) if self._pattern else None

    def unfinished(self, text: str, start: int) -> int | None:
        """Where, from `start` on, the end of a text may be the beginning of a secret that is not all there yet."""
        if self._first is None:
            return None
        for found in self._first.finditer(text, max(start, len(text) - self.longest + 1)):
            rest = text[found.start() :]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._forms_of(rest)):
                return found.start()
        return None

    def reaches_quarter(self, text: str) -> bool:
        """Whether a quarter of a secret, or more, stands at the end of a text."""
        ends = (text[place:] for place in range(len(text)))
        return any(form.startswith(end) and len(form) <= 4 * len(end) for end in ends for form in self._forms_of(end))

    def _forms_of(self, beginning: str) -> list[str]:
        return self._begins.get(beginning[0], [])

    def json(self, value: Any) -> Any:
        """Mask in all texts and keys of a JSON value; the value itself is not changed.

        What nests deeper than anything valid does is cut off, so that no stored value can break a list.
        """
        return self._json(value, 2 * MOST_LEVELS)

    def _json(self, value: Any, levels: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        if levels == 0:
            return TOO_DEEP
        if isinstance(value, dict):
            return {self.text(key): self._json(item, levels - 1) for key, item in value.items()}
        return [self._json(item, levels - 1) for item in value]


def secret_values(environ: Mapping[str, str], extra_names: Iterable[str] = ()) -> list[str]:
    """The values of variables that are named like secrets, or that are among `extra_names`."""
    extra = set(extra_names)
    return [
        value
        for name, value in environ.items()
        if name in extra or (_SECRET_NAME.search(name) and not _COUNT_NAME.search(name))
    ]


def secret_args_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Name the arguments that a schema marks with ``writeOnly: true`` or ``format: password``."""
    properties = schema.get("properties", {})
    return frozenset(
        name
        for name, about in properties.items()
        if isinstance(about, dict) and (about.get("writeOnly") is True or about.get("format") == "password")
    )


def mask_args(spec: ToolSpec, args: Json) -> Json:
    """Replace the values of a tool's secret arguments."""
    return {name: MASK if name in spec.secret_args else value for name, value in args.items()}
