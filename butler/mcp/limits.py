"""How much a server may send, and how often, before it costs more than one call (E3)."""

from __future__ import annotations

import time

MOST_MESSAGE = 4 << 20
"""Bytes of one message; a longer one is dropped, and the call that it answers fails."""
MOST_DROPPED = 256 << 20
"""Bytes of one message that does not end; then the connection does."""
MOST_TOOLS = 128
MOST_PAGES = 50
MOST_SCHEMA = 32 * 1024
"""Characters of one tool's schema."""
MOST_SCHEMAS = 512 * 1024
"""Characters of all its tools' schemas: looking through them takes time from everybody."""
MOST_LOOKED_AT = 1_000
"""Tools in a list that are looked at, also those that can't be offered."""
MOST_REPEATED = 5_000
"""Steps that the patterns of one schema repeat, all together."""
MOST_DESCRIPTION = 2_000
BURST, STEADY = 1_000, 200.0
"""Messages that a server may send at once, and in a second for long."""
RELIST_PAUSE = 1.0
REFRESH_SECONDS, REFRESH_FAR_SECONDS = 300.0, 60.0
"""How often tools are asked for anew, announced or not; the second for a server at an address, which may be gone."""
IDLE_SECONDS, PING_SECONDS = 5.0, 5.0
"""After how much silence a server at an address is asked for a sign of life before a call, and how long."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a server is tried again."""
STABLE_SECONDS = 30.0
FRESH_SECONDS = 5.0
"""How long a failed attempt to connect is answer enough."""
PREPARE_SECONDS = 10.0
"""How long a call waits for its server to come up."""
LOOK_SECONDS = 3.0
"""How long after the start a turn waits for servers that are still coming up."""
STOP_SECONDS = 5.0
HOUSE, LAUNCH = "MCP_HOUSE", "MCP_LAUNCH"
"""Marks in the environment of every server: whose it is, and which start it belongs to."""


class Flood(Exception):
    """A server sends more than anybody can use."""


class Bucket:
    """Counts messages against `BURST` and `STEADY`."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = time.monotonic()

    def take(self) -> None:
        """Count one message, or a line that is none. Raises Flood."""
        now = time.monotonic()
        self._left = min(float(BURST), self._left + (now - self._at) * STEADY)
        self._at = now
        if self._left < 1:
            raise Flood(f"it sent more than {BURST} messages at once")
        self._left -= 1
