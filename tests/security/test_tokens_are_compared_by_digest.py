"""No code compares a token in clear: how long such a comparison takes tells how far a guess was right."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for room in ("butler", "service", "config") for path in sorted((ROOT / room).rglob("*.py"))]
CLEAR = re.compile(r"(?<![\w])(?:\w+_)?(?:token|password|signature)\Z")


def clear_comparisons(source: str) -> list[int]:
    """The lines on which something that is named like a secret is compared with ``==``, ``!=`` or ``in``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            kinds = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
            sides = [node.left, *node.comparators]
            named = any(
                isinstance(side, ast.Name | ast.Attribute) and CLEAR.search(ast.unparse(side)) for side in sides
            )
            constant = any(isinstance(side, ast.Constant) for side in sides)
            if named and not constant and isinstance(node.ops[0], kinds):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_source_file_compares_no_secret_in_clear(path: Path) -> None:
    assert clear_comparisons(path.read_text("utf-8")) == []


@pytest.mark.parametrize("source", ["token == wanted", "row.token != token", "self.token in known"])
def test_a_comparison_in_clear_is_found(source: str) -> None:
    assert clear_comparisons(source) == [1]


@pytest.mark.parametrize("source", ["token is None", "token == ''", "hash_token(token) == row.token_hash"])
def test_a_comparison_that_tells_nothing_is_fine(source: str) -> None:
    assert clear_comparisons(source) == []
