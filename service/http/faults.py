"""What is wrong with a request, in the words of the request: no names of Python types or classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError

from butler.types import Json
from service.http.bodies import FORMS

MOST_FAULTS = 20
NO_JSON = "The body was not sent as JSON: set the header `Content-Type: application/json`."

_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "model_type": "expected an object",
    "model_attributes_type": "expected an object",
    "dict_type": "expected an object",
    "list_type": "expected a list",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
}


def faults_of(error: RequestValidationError) -> list[Json]:
    """Each fault as ``{where, what}``; a resume's faults read like ``decisions[0].decision``."""
    if isinstance(error.body, bytes) and error.body:
        return [{"where": "Content-Type", "what": "expected application/json"}]
    return [{"where": _where(fault["loc"]), "what": _what(fault)} for fault in error.errors()[:MOST_FAULTS]]


def sentence_of(error: RequestValidationError) -> str:
    """All faults as the `detail` of a problem."""
    if isinstance(error.body, bytes) and error.body:
        return NO_JSON
    faults = "; ".join(f"{fault['where']}: {fault['what']}" for fault in faults_of(error))
    return f"The request was not understood. {faults}"


def _where(place: Sequence[str | int]) -> str:
    text = ""
    for before, part in zip((None, *place), place, strict=False):
        if isinstance(part, int):
            text += f"[{part}]"
        elif not (isinstance(before, int) and part in FORMS):
            text += f".{part}" if text else part
    for root in ("body", "query", "path"):
        text = text.removeprefix(f"{root}.")
    return text


def _what(fault: Any) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "literal_error":
        return f"expected {context['expected'].replace(chr(39), '').removeprefix(', ')}"
    if kind == "value_error":
        return str(context["error"])
    message = str(fault["msg"])
    for subject in ("Input", "String", "List", "Dictionary"):
        message = message.removeprefix(f"{subject} should ")
    return f"must {message.partition(' after validation')[0]}"
