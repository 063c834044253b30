"""The counts in Prometheus' text form. Its library is loaded by the first request for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from butler.memory.foldparts import FoldCounts
from butler.models.counts import ModelCounts
from butler.storage.database import WriteCounts
from butler.storage.tally import Tally
from service.metrics.counts import Turns

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class House:
    """Everything that is told, as one collector of a registry of its own.

    `tally` is None when the database took too long to count.
    """

    def __init__(
        self, turns: Turns, model: ModelCounts | None, folds: FoldCounts | None, writes: WriteCounts,
        tally: Tally | None,
    ) -> None:  # fmt: skip
        self._turns = turns
        self._model = model
        self._folds = folds
        self._writes = writes
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        """The metrics, as the registry wants them."""
        yield from self._of_turns()
        yield from self._of_writes()
        if self._model is not None:
            yield from _of_model(self._model)
        if self._folds is not None:
            yield from _of_folds(self._folds)
        if self._tally is not None:
            yield from _of_tally(self._tally)

    def text(self) -> tuple[bytes, str]:
        """The whole and its media type."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4

    def _of_turns(self) -> Iterator[Metric]:
        from prometheus_client.core import HistogramMetricFamily

        turns = self._turns
        yield _counter("butler_turns", "Turns that ended or parked.", "status", turns.ended)
        yield _counter("butler_turn_errors", "Turns that failed, by code.", "code", turns.errors)
        yield _counter("butler_tool_events", "Steps of tool calls.", "phase", turns.tools)
        yield _counter("butler_turn_usage", "Tokens and model calls of turns that ended.", "kind", turns.usage)
        for name, about, histogram in (
            ("butler_turn_seconds", "From the start of a turn to its end or park.", turns.seconds),
            ("butler_first_token_seconds", "From the start of a turn to its first token.", turns.first_token),
        ):
            yield HistogramMetricFamily(name, about, buckets=histogram.cumulated(), sum_value=histogram.total)

    def _of_writes(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily, SummaryMetricFamily

        writes = self._writes
        yield SummaryMetricFamily(
            "butler_database_write_seconds", "From asking for a write until it was on disk.",
            count_value=writes.done, sum_value=writes.seconds,
        )  # fmt: skip
        yield GaugeMetricFamily("butler_database_writes_waiting", "Writes in the queue.", value=writes.waiting)


def _of_model(counts: ModelCounts) -> Iterator[Metric]:
    yield _counter("butler_model_calls", "Requests to the model that were answered.", "purpose", counts.answered)
    yield _counter("butler_model_errors", "Requests to the model that came to nothing.", "purpose", counts.failed)
    yield _counter("butler_model_input_tokens", "Tokens sent to the model.", "purpose", counts.input_tokens)
    yield _counter("butler_model_output_tokens", "Tokens of the model's answers.", "purpose", counts.output_tokens)
    yield _counter("butler_model_retries", "Second tries and changes of model.", "kind",
                   {"retry": counts.retries, "fallback": counts.fallbacks})  # fmt: skip


def _of_folds(counts: FoldCounts) -> Iterator[Metric]:
    kept = {"kept": counts.folded, "put_off": counts.gave_way}
    yield _counter("butler_folds", "Folds of long talks that were kept, or gave way to a turn.", "outcome", kept)
    yield _counter("butler_folds_refused", "Folds that changed nothing, by reason.", "reason", counts.refused)


def _of_tally(found: Tally) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    for name, about, label, values in (
        ("butler_runs", "Turns that are not over.", "status", found.runs),
        ("butler_approvals", "Actions that were asked about.", "status", found.approvals),
    ):
        gauge = GaugeMetricFamily(name, about, labels=[label])
        for value, count in values.items():
            gauge.add_metric([value], count)
        yield gauge
    attempts = GaugeMetricFamily("butler_maid_attempts", "Attempts of maids.", labels=["status", "failure_class"])
    for (status, kind), count in found.attempts.items():
        attempts.add_metric([status, kind], count)
    yield attempts


def _counter(name: str, about: str, label: str, values: Mapping[str, float] | Iterable[tuple[str, float]]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in dict(values).items():
        family.add_metric([value], count)
    return family
