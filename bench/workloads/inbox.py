"""Lists of very many pending approvals, for people who may see all, some and none of them. Butler alone."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from uuid import uuid4

from bench.client import Client
from bench.copying import multiply
from bench.load import quantile
from bench.peers import Butler
from bench.process import ROOT, HarnessError
from bench.report import Row, Section
from bench.workloads.governed import order

_PAGES = 60
_LIMIT = 50
_RULE = """\
rules:
  - {name: carls, tool: append_line, args: {text: "carls *"}, verdict: approve, deciders: [carl], reason: Carl decides}
"""


async def measure(butler: Butler, many: int) -> Section:
    """Park one thread of each kind, copy them up to `many`, and read the lists as three people."""
    section = Section(
        f"Lists of {many:,} pending approvals",
        "Half are a member's own; a quarter are the owner's, which an admin decides; a quarter are the owner's, for"
        " which the policy names a decider. *All pages*: read one after the other, 50 at a time. The last row reads"
        " the same 50 rows with `sqlite3` in the bench's own process: no HTTP, no masking.",
    )
    (butler.folder / "config" / "policy.yml").write_text(_RULE)
    await butler.start()
    tokens = [await asyncio.to_thread(_user, butler, name) for name in ("mia", "ben")]
    kinds = [
        (await _parked(Client(butler.server.url, tokens[0]), uuid4().hex), many // 2),
        (await _parked(butler.client, uuid4().hex), many // 4),
        (await _parked(butler.client, f"carls {uuid4().hex}"), many - many // 2 - many // 4),
    ]
    butler.stop()
    copied = 0
    for thread_id, count in kinds:
        await asyncio.to_thread(multiply, butler.data_dir, thread_id, count - 1, first=copied)
        copied += count - 1
    await butler.start()
    mia, ben = (Client(butler.server.url, token) for token in tokens)
    readers = (
        ("an admin", butler.client, many),
        ("a member with half of them", mia, kinds[0][1]),
        ("a member with none of them", ben, 0),
    )
    for who, client, count in readers:
        section.rows += await _reads(who, client, count)
    plain = await asyncio.to_thread(_plain_pages, butler)
    section.rows.append(Row("the same page straight from the file, p50", None, 1000 * quantile(plain, 0.5), "ms"))
    return section


def _user(butler: Butler, name: str) -> str:
    """Make a member; gives the token."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **butler.environment}
    command = [sys.executable, "-m", "service.cli", "user", "add", name, "--role", "member"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"user add: {done.stderr}")
    return done.stdout.rstrip().splitlines()[-1].strip()


async def _parked(client: Client, marker: str) -> str:
    """Park one call; gives the thread's id."""
    outcome = (await client.post("/chat", {"message": order(marker)})).json()
    if outcome["status"] != "parked":
        raise HarnessError(f"did not park: {outcome!r}")
    return str(outcome["thread_id"])


async def _reads(who: str, client: Client, count: int) -> list[Row]:
    first = [await _page(client, "") for _ in range(_PAGES)]
    pages = [seconds for seconds, _, _ in first]
    started = time.perf_counter()
    found: set[str] = set()
    cursor: str | None = ""
    while cursor is not None:
        _, items, cursor = await _page(client, f"&cursor={cursor}" if cursor else "")
        found.update(items)
    whole = time.perf_counter() - started
    if len(found) != count:
        raise HarnessError(f"{who} found {len(found)} approvals instead of {count}")
    p50 = 1000 * quantile(pages, 0.5)
    rows = [
        Row(f"first page of {_LIMIT}, {who}, p50", None, p50, "ms", p50, 10.0, absolute=True),
        Row(f"first page of {_LIMIT}, {who}, p95", None, 1000 * quantile(pages, 0.95), "ms"),
    ]
    return [*rows, Row(f"all pages, {who} ({count:,})", None, whole, "s")] if count else rows


async def _page(client: Client, cursor: str) -> tuple[float, list[str], str | None]:
    response = await client.get(f"/approvals?status=pending&limit={_LIMIT}{cursor}")
    if response.status != 200:
        raise HarnessError(f"page of approvals: HTTP {response.status}, {response.body[:300]!r}")
    body = response.json()
    return response.seconds, [item["action_id"] for item in body["items"]], body["next_cursor"]


def _plain_pages(butler: Butler) -> list[float]:
    """The time of a plain query for the first page and of writing it as JSON."""
    query = "SELECT * FROM actions WHERE status = 'pending' ORDER BY requested_at, action_id LIMIT ?"
    found: list[float] = []
    with closing(sqlite3.connect(butler.data_dir / "butler.db")) as file:
        for _ in range(_PAGES):
            started = time.perf_counter()
            json.dumps(file.execute(query, (_LIMIT,)).fetchall())
            found.append(time.perf_counter() - started)
    return found
