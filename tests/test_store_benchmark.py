"""`python -m benchmarks.store`, made small."""

from __future__ import annotations

from benchmarks import store


def test_it_runs(monkeypatch, capsys):
    monkeypatch.setattr(store, "STEPS", 20)
    monkeypatch.setattr(store, "POINTS", 16)
    monkeypatch.setattr(store, "FRAMES", 10)
    store.run(count=5, rounds=1)
    out = capsys.readouterr().out
    assert out.count("peer: memory") == 4
    assert "a step of MGP-Short" in out
