"""What is counted, and that it comes out in Prometheus' form."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from butler.memory.foldparts import FoldCounts
from butler.models.counts import ModelCounts
from butler.storage.database import Database, WriteCounts
from butler.storage.tally import Tally, tally
from service.events import RunLogs
from service.metrics.collect import House
from service.metrics.counts import Histogram, Turns
from tests.support.parts import ADMIN, add_run, new_database

ROOT = Path(__file__).resolve().parents[2]
USAGE = {"input_tokens": 7, "output_tokens": 3, "model_calls": 1}


def values(text: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and its labels' values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def outcome(status: str, error: str | None = None) -> dict[str, object]:
    return {"status": status, "error": {"code": error, "detail": ""} if error else None, "usage": USAGE}


def test_a_turn_is_timed_and_counted_by_how_it_ended() -> None:
    moments = iter([10.0, 10.2, 13.0, 20.0, 20.5])
    logs, heard, turns = RunLogs(), list[str](), Turns(clock=lambda: next(moments))
    logs.taps.append(lambda _log, event, _data: heard.append(event))
    turns.listen(logs)
    log = logs.open("r1")
    log.begin("t")
    log.emit("token", {"text": "a"})
    log.emit("token", {"text": "b"})
    log.emit("tool", {"phase": "proposed"})
    log.end(outcome("parked"))
    log.begin("t")
    log.end(outcome("failed", "model_unavailable"))
    assert turns.ended == {"parked": 1, "failed": 1}
    assert turns.errors == {"model_unavailable": 1}
    assert turns.usage == USAGE, "what a park told already is not counted twice"
    assert round(turns.seconds.total, 3) == 3.5
    assert round(turns.first_token.total, 3) == 0.2
    assert heard.count("end") == 2, "who listened before still hears"
    assert not turns._began and not turns._silent


def test_a_histogram_adds_up() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert histogram.cumulated() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]


def test_the_text_is_prometheus_own_and_has_every_count() -> None:
    turns = Turns(ended=Counter(done=3), errors=Counter(internal=1), tools=Counter(done=2))
    turns.seconds.add(0.3)
    model = ModelCounts(answered=Counter(chat=4), failed=Counter(title=1), retries=2)
    folds = FoldCounts(folded=5, refused=Counter(empty=6))
    found = Tally({"queued": 8}, {"pending": 9}, {("failed", "no_changes"): 10})
    text, media_type = House(turns, model, folds, WriteCounts(11, 0.5, 12), found).text()
    assert media_type.startswith("text/plain; version=0.0.4")
    told = values(text.decode())
    assert told["butler_turns_total", "done"] == 3
    assert told["butler_turn_errors_total", "internal"] == 1
    assert told["butler_turn_seconds_count",] == 1
    assert told["butler_model_calls_total", "chat"] == 4
    assert told["butler_model_errors_total", "title"] == 1
    assert told["butler_model_retries_total", "retry"] == 2
    assert told["butler_folds_total", "kept"] == 5
    assert told["butler_folds_refused_total", "empty"] == 6
    assert told["butler_runs", "queued"] == 8
    assert told["butler_approvals", "pending"] == 9
    assert told["butler_maid_attempts", "no_changes", "failed"] == 10
    assert told["butler_database_write_seconds_count",] == 11
    assert told["butler_database_writes_waiting",] == 12


def test_a_house_without_model_and_count_still_tells_the_rest() -> None:
    text, _ = House(Turns(), None, None, WriteCounts(0, 0.0, 0), None).text()
    assert "butler_turn_seconds_bucket" in text.decode()
    assert "butler_runs" not in text.decode()


async def test_writes_are_counted_and_what_is_open_is_tallied(tmp_path: Path) -> None:
    database: Database = new_database(tmp_path / "butler.db")
    await asyncio.gather(*(database.write(partial(add_run, run_id=f"r{n}", status="parked")) for n in range(3)))
    await database.write(lambda connection: add_run(connection, "r9", "t9", ADMIN, "done"))
    counts = database.write_counts()
    found = await database.read(tally)
    database.close()
    assert counts.done >= 3 and counts.seconds > 0 and counts.waiting == 0
    assert found.runs == {"queued": 0, "running": 0, "parked": 3}
    assert found.approvals["pending"] == 0


def test_the_library_is_not_loaded_before_somebody_asks() -> None:
    code = "import server, sys; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
