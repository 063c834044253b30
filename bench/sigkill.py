"""``python -m bench.sigkill``: kill Butler again and again under mixed load, and hold it to what it
acknowledged.

Each round: start, load of chats, governed and allowed tools and decisions by several clients, SIGKILL
after a random time, start again, check. Exit status 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from bench.__main__ import start_model
from bench.client import Client, ConnectionLost
from bench.peers import Butler
from bench.process import HarnessError
from bench.witness import Errand, Witness, pending

_CLIENTS = 8
_KILL_AFTER = (0.2, 2.0)
_ERRANDS_PER_THREAD = 6


class Household:
    """Clients that keep a butler busy and write down what they are told."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.errands: list[Errand] = []
        self.touched: list[Errand] = []
        self._threads: dict[str, int] = {}
        self._open: list[tuple[Errand, str]] = []

    async def load(self, client: Client, running: Callable[[], bool]) -> None:
        """Run errands until the server is gone."""

        async def one() -> None:
            while running():
                try:
                    if self._open and self._chance.random() < 0.35:
                        await self._decide(client)
                    else:
                        await self._send(client)
                except ConnectionLost:
                    return

        await asyncio.gather(*(one() for _ in range(_CLIENTS)))

    async def decide_unknown(self, client: Client, witness: Witness) -> None:
        """Answer what the crash left unknown; the rest stays parked for the next rounds."""
        for thread_id in sorted({e.thread_id for e in self.touched if e.thread_id is not None}):
            for item in await pending(client, thread_id):
                if item["execution"] != "unknown":
                    continue
                await witness.close(client, item["action_id"], self._chance.choice(("respond", "reject")))
                witness.counts["unknown outcomes decided"] += 1
        self._open = [(e, a) for e, a in self._open if a not in e.tried]

    async def _send(self, client: Client) -> None:
        errand = self._errand()
        self.errands.append(errand)
        self.touched.append(errand)
        body: dict[str, object] = {"message": errand.text}
        if self._threads and self._chance.random() < 0.5:
            errand.thread_id = self._chance.choice(list(self._threads))
            body["thread_id"] = errand.thread_id
            self._threads[errand.thread_id] += 1
            if self._threads[errand.thread_id] >= _ERRANDS_PER_THREAD:
                del self._threads[errand.thread_id]
        if self._chance.random() < 0.15:
            body["wait"] = False
        response = await client.post("/chat", body)
        if response.status not in (200, 202):
            raise HarnessError(f"chat refused: HTTP {response.status} {response.body[:300]!r}")
        outcome = response.json()
        if errand.thread_id is None:
            errand.thread_id = str(outcome["thread_id"])
            self._threads[errand.thread_id] = 1
        errand.accepted = True
        errand.status = str(outcome["status"])
        errand.reply = str(outcome.get("reply") or "")
        if errand.status == "parked":
            mine = [a for a in outcome["approvals"] if a["run_id"] == outcome["run_id"]]
            errand.actions = [str(action["action_id"]) for action in mine]
            self._open += [(errand, action_id) for action_id in errand.actions]

    async def _decide(self, client: Client) -> None:
        errand, action_id = self._open.pop(self._chance.randrange(len(self._open)))
        decision = self._chance.choices(("approve", "reject", "respond"), (7, 2, 1))[0]
        self.touched.append(errand)
        errand.tried[action_id] = decision
        order: dict[str, object] = {"action_id": action_id, "decision": decision}
        if decision == "respond":
            order["response"] = "Somebody else did it."
        response = await client.post(f"/threads/{errand.thread_id}/resume", {"decisions": [order]})
        if response.status not in (200, 202):
            raise HarnessError(f"decision refused: HTTP {response.status} {response.body[:300]!r}")
        errand.decided[action_id] = decision
        outcome = response.json()
        errand.status, errand.reply = str(outcome["status"]), str(outcome["reply"])

    def _errand(self) -> Errand:
        marker = uuid4().hex
        tool = self._chance.choices((None, "append_line", "note_line"), (4, 4, 2))[0]
        parts = [f"Errand {marker}.", self._delay()]
        if tool is not None:
            parts += [f'[[call {tool} {{"text": "{marker}"}}]][[then]]', self._delay()]
        return Errand(marker, " ".join(part for part in (*parts, "[[tokens 20]]") if part), tool)

    def _delay(self) -> str:
        return f"[[delay {self._chance.uniform(0, 0.3):.3f}]]" if self._chance.random() < 0.5 else ""


async def run(kills: int, seed: int) -> int:
    """Do the rounds and print the counts."""
    with tempfile.TemporaryDirectory(prefix="butler-sigkill-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        model, url = await start_model(folder)
        butler = Butler(url, folder / "butler", slow_tool=True)
        household, witness = Household(seed), Witness(butler.work_dir)
        began = time.perf_counter()
        try:
            await butler.start()
            for number in range(1, kills + 1):
                await _round(butler, household, witness, random.Random(seed + number))
                if number % 10 == 0:
                    print(
                        f"… {number} kills, {len(witness.broken)} broken promises",
                        file=sys.stderr,
                        flush=True,
                    )
            await witness.finish(butler.client)
            household.touched = household.errands
            witness.counts["effects"] = 0
            await witness.check(butler.client, household.errands)
        finally:
            butler.stop()
            model.stop()
        _print(kills, household, witness, time.perf_counter() - began)
        return 1 if witness.broken else 0


async def _round(butler: Butler, household: Household, witness: Witness, chance: random.Random) -> None:
    """Load, kill, restart, check."""
    alive = True
    household.touched = []
    load = asyncio.create_task(household.load(butler.client, lambda: alive))
    await asyncio.sleep(chance.uniform(*_KILL_AFTER))
    alive = False
    butler.kill()
    await load
    witness.counts["kills"] += 1
    await butler.start()
    await witness.check(butler.client, household.touched)
    await household.decide_unknown(butler.client, witness)


def _print(kills: int, household: Household, witness: Witness, seconds: float) -> None:
    errands = household.errands
    numbers = {
        "kills": witness.counts["kills"],
        "messages sent": len(errands),
        "messages acknowledged": sum(errand.accepted for errand in errands),
        "parks acknowledged": sum(len(errand.actions) for errand in errands),
        "decisions acknowledged": sum(len(errand.decided) for errand in errands),
        "decisions cut by the kill": sum(len(errand.tried) - len(errand.decided) for errand in errands),
        "effects": witness.counts["effects"],
        "unknown outcomes decided": witness.counts["unknown outcomes decided"],
        "threads, all idle at the end": witness.counts["threads"],
        "broken promises": len(witness.broken),
    }
    print(f"{kills} kills in {seconds:.0f} s")
    for name, number in numbers.items():
        print(f"{number:8}  {name}")
    for line in witness.broken:
        print(f"BROKEN: {line}")


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m bench.sigkill", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return asyncio.run(run(options.kills, options.seed))


if __name__ == "__main__":
    sys.exit(main())
