"""A downstream agent for Butler: it tells how this machine is, and lists the files of one folder. Nothing else.

In a second terminal: BUTLER_TOKEN=… python examples/agent.py [FOLDER]   (the token of a user with the role `agent`)
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

URL = os.environ.get("BUTLER_URL", "http://127.0.0.1:8710").replace("http", "ws", 1) + "/ws"
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()


def get_status() -> str:
    """How busy the machine is, and how much room the folder's disk has."""
    return f"online, load {os.getloadavg()[0]:.2f}, {shutil.disk_usage(FOLDER).free // 2**20} MiB free"


def list_files() -> str:
    """The names in the folder, at most a hundred."""
    return "\n".join(sorted(path.name for path in FOLDER.iterdir())[:100]) or "(empty)"


COMMANDS = {"get_status": get_status, "list_files": list_files}


def carry_out(command: str) -> str:
    """Only known words do anything: what Butler sends is never run as a program."""
    known = COMMANDS.get((command.split() or [""])[0])
    return known() if known else f"I don't know {command!r}; I know {', '.join(COMMANDS)}."


def serve() -> None:
    """Answer commands until the connection ends."""
    with connect(URL, additional_headers={"Authorization": f"Bearer {os.environ['BUTLER_TOKEN']}"}) as socket:
        socket.send(json.dumps({"type": "AUTH", "capabilities": list(COMMANDS)}))
        print(f"Connected to {URL}; serving {FOLDER}.", flush=True)
        for frame in map(json.loads, socket):
            if frame["type"] == "CHAT" and "correlation_id" in frame:
                payload = carry_out(frame["command"])
                socket.send(json.dumps({"type": "CHAT", "correlation_id": frame["correlation_id"], "payload": payload}))


while True:
    try:
        serve()
    except InvalidStatus as error:
        sys.exit(f"Not let in: {error}. Is BUTLER_TOKEN the token of an agent?")
    except (OSError, ConnectionClosed) as error:
        print(f"No connection ({error}); trying again in 3 s.", flush=True)
        time.sleep(3)
