"""Counters, gauges and histograms, written as the text that Prometheus reads."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
ROWS = (1, 2, 4, 8, 16, 32)


class Metric(ABC):
    kind = "untyped"

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text
        self.lock = threading.Lock()  # plans are made in another thread than messages are read

    @abstractmethod
    def samples(self) -> Iterable[tuple[str, dict[str, str], float]]:
        """Ending of the name, labels, value."""


class Counter(Metric):
    """One count, or one for each value of a label."""

    kind = "counter"

    def __init__(self, name: str, text: str, label: str = "", values: Sequence[str] = ()):
        super().__init__(name, text)
        self.label = label
        self.counts = dict.fromkeys(values if label else ("",), 0)  # known values are there from the start, at 0

    def add(self, value: str = "", count: int = 1) -> None:
        with self.lock:
            self.counts[value] += count  # an unknown value would be a new series: values are never a client's words

    def __getitem__(self, value: str) -> int:
        return self.counts[value]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def samples(self) -> Iterable[tuple[str, dict[str, str], float]]:
        for value, count in self.counts.items():
            yield "", {self.label: value} if self.label else {}, count


class Gauge(Metric):
    kind = "gauge"

    def __init__(self, name: str, text: str, labels: dict[str, str] | None = None, value: float = 0.0):
        super().__init__(name, text)
        self.labels, self.value = labels or {}, value

    def samples(self) -> Iterable[tuple[str, dict[str, str], float]]:
        yield "", self.labels, self.value


class Histogram(Metric):
    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: Sequence[float] = SECONDS):
        super().__init__(name, text)
        self.bounds, self.counts, self.sum = tuple(bounds), [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        with self.lock:
            self.counts[bisect_left(self.bounds, value)] += 1
            self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(self) -> Iterable[tuple[str, dict[str, str], float]]:
        with self.lock:
            counts, total = list(self.counts), self.sum
        so_far = 0
        for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
            so_far += count
            yield "_bucket", {"le": _number(bound)}, so_far
        yield "_sum", {}, total
        yield "_count", {}, so_far


def exposition(metrics: Iterable[Metric]) -> str:
    """Prometheus' text format 0.0.4."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {_escaped(metric.text)}", f"# TYPE {metric.name} {metric.kind}"]
        for ending, labels, value in metric.samples():
            inside = ",".join(f'{key}="{_escaped(text, quote=True)}"' for key, text in labels.items())
            lines.append(f"{metric.name}{ending}{'{' + inside + '}' if inside else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.12g}"


def _escaped(text: str, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
