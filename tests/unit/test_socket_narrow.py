"""How long a frame is, by its first bytes alone, as a real client writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from service.socket.narrow import _first_frame

KINDS = st.sampled_from([Opcode.CONT, Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.CLOSE])


@given(KINDS, st.binary(max_size=125), st.booleans(), st.booleans(), st.binary(max_size=9))
def test_a_frame_is_as_long_as_its_head_says(kind: Opcode, data: bytes, fin: bool, mask: bool, behind: bytes) -> None:
    control = kind in (Opcode.PING, Opcode.CLOSE)
    raw = Frame(kind, data, fin or control).serialize(mask=mask)
    assert _first_frame(raw + behind) == (len(raw), fin and not control)


@pytest.mark.parametrize("size", [125, 126, 65_535, 65_536, 100_000])
def test_every_way_to_write_a_length_is_read_and_half_a_head_asks_for_more(size: int) -> None:
    raw = Frame(Opcode.TEXT, b"x" * size).serialize(mask=True)
    assert _first_frame(raw)[0] == len(raw)
    head = len(raw) - size - 4
    for known in range(1, head):
        assert _first_frame(raw[:known])[0] == known + 1
    assert _first_frame(raw[:head])[0] == len(raw)
