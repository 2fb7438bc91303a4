"""The counts of a server as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dpsql.server.tally import COUNTERS, GAUGES, Tally

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """Writes the counts of a tally, beside the processor time and memory of the process."""

    def __init__(self, tally: Tally) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Counts(tally))
        ProcessCollector(registry=self._registry)

    def write(self) -> bytes:
        """Return the page."""
        return generate_latest(self._registry)


class _Counts(Collector):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        """Return all counts and numbers."""
        counts, measures = self._tally.counts(), self._tally.measures()
        for name, one in COUNTERS.items():
            counter = CounterMetricFamily(f"dpsql_{name}", one.meaning, labels=one.labels)
            for (found, labels), value in counts.items():
                if found == name:
                    counter.add_metric(labels, value)
            yield counter
        for name, one in GAUGES.items():
            gauge = GaugeMetricFamily(f"dpsql_{name}", one.meaning, labels=one.labels)
            for (found, labels), value in measures.items():
                if found == name:
                    gauge.add_metric(labels, value)
            yield gauge
