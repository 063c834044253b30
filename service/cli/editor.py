"""Arguments changed in the person's own editor (`butler approve --edit`)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from butler.errors import ButlerError
from butler.exactjson import loads_exactly
from butler.redact import MASK
from butler.types import Json
from service.cli.plain import visible


def edit_arguments(approval: Json, masked: bool) -> Json:
    """The arguments as the person's editor leaves them.

    The file is JSON, readable by the person only, and gone afterwards. Raises: ButlerError ``invalid_request`` when
    the text is no JSON object, nothing was changed or a masked value was left in; ``editor_failed``.
    """
    text = _edited(visible_json(approval["args"]))
    args = read_arguments(text)
    if masked and MASK in json.dumps(args):
        raise ButlerError(
            "invalid_request",
            f"Secret values are shown as {MASK}; in an edited call each must be written out. Nothing was decided.",
        )
    if args == approval["args"] and not masked:
        raise ButlerError("invalid_request", "The arguments were not changed. Nothing was decided.")
    return args


def read_arguments(text: str) -> Json:
    """A JSON object, read exactly. Raises ButlerError ``invalid_request``."""
    try:
        value: Any = loads_exactly(text)
    except (ValueError, RecursionError) as error:
        said = visible(str(error))
        raise ButlerError("invalid_request", f"The arguments are no JSON: {said}. Nothing was decided.") from None
    if not isinstance(value, dict):
        raise ButlerError("invalid_request", "The arguments must be a JSON object. Nothing was decided.")
    return value


def visible_json(value: Any) -> str:
    """JSON over several lines; unseen characters stand as escapes, which mean the same."""
    lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    return "".join(visible(line) + "\n" for line in lines)


def _edited(text: str) -> str:
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi") or ["vi"]
    with tempfile.TemporaryDirectory(prefix="butler-") as folder:
        path = Path(folder) / "arguments.json"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        try:
            status = subprocess.run([*command, str(path)], check=False).returncode
        except OSError as error:
            raise ButlerError(
                "editor_failed", f"The editor {command[0]!r} can't be started: {error.strerror}. Set EDITOR."
            ) from None
        if status != 0:
            raise ButlerError("editor_failed", f"The editor ended with status {status}. Nothing was decided.")
        try:
            return path.read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise ButlerError("invalid_request", "The arguments are no UTF-8. Nothing was decided.") from None
