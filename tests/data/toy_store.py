"""A small store, and what is in its folder."""

import numpy as np

META = {"env": "toy/line", "observation": "cloud", "options": {"points": 8}, "horizon": 5, "hold_action": [0.0, 0.0]}


def episodes(lengths=(3, 5), seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "action": rng.normal(size=(n, 2)).astype(np.float32),
            "state": rng.normal(size=(n, 9)),  # float64 on purpose
            "cloud": rng.normal(size=(n, 8, 3)).astype(np.float32),
            "rgb": rng.integers(0, 255, (n, 4, 4, 3), dtype=np.uint8),
        }
        for n in lengths
    ]


def chunk(store, key):
    return next(file for file in (store.path / "data" / key).iterdir() if not file.name.startswith("."))


def content(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
