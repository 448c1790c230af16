from __future__ import annotations

import pytest

from mgp.runtime.metrics import Counter, Gauge, Histogram, exposition


def test_metrics_are_read_by_prometheus():
    parser = pytest.importorskip("prometheus_client.parser")
    refused = Counter("mgp_refused_total", "Refused.", "name", ("a", 'b"\n\\'))
    refused.add("a")
    refused.add("a", 2)
    seconds = Histogram("mgp_seconds", "Seconds, \\ and\nlines.", (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3.0):
        seconds.add(value)
    text = exposition([refused, seconds, Gauge("mgp_info", "Info.", {"method": 'MGP "x"'}, 1)])
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert {sample.labels["name"]: sample.value for sample in families["mgp_refused"].samples} == {"a": 3, 'b"\n\\': 0}
    samples = {(sample.name, sample.labels.get("le")): sample.value for sample in families["mgp_seconds"].samples}
    assert samples == {
        ("mgp_seconds_bucket", "0.1"): 2,
        ("mgp_seconds_bucket", "1"): 3,
        ("mgp_seconds_bucket", "+Inf"): 4,
        ("mgp_seconds_sum", None): pytest.approx(3.65),
        ("mgp_seconds_count", None): 4,
    }
    assert families["mgp_info"].samples[0].labels == {"method": 'MGP "x"'}
    assert families["mgp_seconds"].documentation == "Seconds, \\ and\nlines."


def test_a_clients_words_never_become_a_series():
    with pytest.raises(KeyError):
        Counter("x", "x", "name", ("a",)).add("b")
