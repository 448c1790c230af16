"""`python -m benchmarks`: every benchmark, each a table of medians and ratios against a peer in the same run."""

from __future__ import annotations

from benchmarks import clouds, store, training

if __name__ == "__main__":
    for module in (clouds, store, training):
        print(f"\n== {module.__name__} ==")
        module.run()
    store.peak()
