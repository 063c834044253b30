"""YAML's faults of syntax in words for whoever wrote the file, at the line where the mend is needed."""

from __future__ import annotations

import re

import yaml

_FORBIDDEN_START = re.compile(r"found character (.+) that cannot start any token")
_STRAY = re.compile(r"found '([\]},])'")


def syntax_fault(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """Line and sentence for an error of the parser in `text`."""
    context, problem = error.context or "", error.problem or "is not YAML"
    here = error.problem_mark or error.context_mark
    line = here.line + 1 if here else 1
    begun = error.context_mark.line + 1 if error.context_mark else line
    if "quoted scalar" in context and "end of" in problem:
        return begun, "a text in quotes begins here and is not closed"
    if context in ("while parsing a flow sequence", "while parsing a flow mapping"):
        bracket = "[" if context.endswith("sequence") else "{"
        return begun, f"a {bracket!r} begins here and is not closed, or a comma is missing; noticed on line {line}"
    if "<block end>" in problem and (stray := _STRAY.search(problem)):
        return line, f"{stray[1]!r} is not expected here"
    if "<block end>" in problem and "<scalar>" in problem:
        return line, "a text goes on after its closing quote; put the whole of it in quotes"
    if "<block end>" in problem:
        return line, f"the indentation does not fit the block that begins on line {begun}"
    if "<document start>" in problem:
        return line, _after_the_end(text, line)
    if "mapping values are not allowed" in problem:
        return line, "a ':' is not expected here; check the indentation, and put a text that holds ': ' in quotes"
    if "could not find expected ':'" in problem:
        return begun, "expected 'key: value'"
    if "alias" in context or "alias" in problem or "anchor" in context:
        return line, "a text that begins with '*' or '&' must be in quotes"
    if found := _FORBIDDEN_START.match(problem):
        if found[1] == r"'\t'":
            return line, "a tab can't indent; use spaces"
        return line, f"a text can't begin with {found[1]}; put it in quotes"
    if "another document" in problem:
        return line, "only one document is allowed in a file; remove this '---'"
    return line, f"{context}: {problem}" if context else problem


def _after_the_end(text: str, line: int) -> str:
    for number, written in enumerate(text.splitlines(), 1):
        if written.strip() and not written.lstrip().startswith("#"):
            if number < line and written.startswith(" "):
                return f"begins further left than line {number}; keys of one level must begin in the same column"
            break
    return "the value of the file has ended above; check the indentation"
