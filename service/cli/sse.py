"""Server-sent events as a run's stream has them (http-api, *Streaming*)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from butler.types import Json


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a run; `seq` is its number within the run."""

    seq: int
    name: str
    data: Json


def read_events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events in pieces of a stream; comments and events without data are left out.

    Lines end with a line feed only: JSON may hold other line separators as they are. Raises ValueError for data that
    is no JSON object.
    """
    rest = b""
    seq, name, data = 0, "", b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            field, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if field == b"id" and value.isdigit():
                seq = int(value)
            elif field == b"event":
                name = value.decode("ascii", "replace")
            elif field == b"data":
                data += value
            elif not line.strip() and data:
                yield Event(seq, name, _json_object(data))
                name, data = "", b""


def _json_object(data: bytes) -> Json:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"an event holds {type(value).__name__}, no JSON object")
    return value
