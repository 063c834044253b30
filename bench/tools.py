"""The two tools of the benchmark: shell commands with one visible effect, the same for every server
measured.

`append_line` is governed, `note_line` runs at once. Each appends one line to ``effects.txt`` in its
working directory; the line's text is unique for each call, so that an effect that happened twice shows.
"""

from __future__ import annotations

from pathlib import Path

TOOL_SCRIPT = "append.sh"
NOTE_SCRIPT = "note.sh"
EFFECTS = "effects.txt"

_APPEND = 'printf "%s %s\\n" "${BUTLER_ACTION_ID:-none}" "$1" >> effects.txt\nprintf ok\n'
_SLOW = f"sleep 0.005\n{_APPEND}sleep 0.02\n"

_TOOLS_YML = """\
tools:
  - name: append_line
    description: Append one line to the journal
    input_schema:
      type: object
      properties: {text: {type: string}}
      required: [text]
      additionalProperties: false
    command: [sh, append.sh, "{text}"]
    cwd: "WORK"
    env: [PATH]
    verdict: approve
  - name: note_line
    description: Note one line in the journal
    input_schema:
      type: object
      properties: {text: {type: string}}
      required: [text]
      additionalProperties: false
    command: [sh, note.sh, "{text}"]
    cwd: "WORK"
    env: [PATH]
    verdict: allow
"""


def write_tools(folder: Path, *, slow: bool = False) -> None:
    """Put the tools' scripts into `folder`; `slow` leaves 25 ms around the effect in which a kill can hit."""
    script = _SLOW if slow else _APPEND
    for name in (TOOL_SCRIPT, NOTE_SCRIPT):
        (folder / name).write_text(script)


def write_tools_yml(config: Path, folder: Path) -> None:
    """Declare the tools for Butler, running in `folder`."""
    (config / "tools.yml").write_text(_TOOLS_YML.replace("WORK", str(folder)))


def effects(folder: Path) -> dict[str, list[str]]:
    """The effects so far: text → the action ids it was appended under, one entry for each time."""
    found: dict[str, list[str]] = {}
    path = folder / EFFECTS
    if path.exists():
        for line in path.read_text().splitlines():
            action_id, _, text = line.partition(" ")
            found.setdefault(text, []).append(action_id)
    return found
