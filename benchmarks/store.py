"""Frames of a training step from memory, from a store and from compressed chunks: `python -m benchmarks.store`.

The ways take turns in one run, so that a noisy machine hits all alike; the page cache is warm. Then the memory of a
process that trains MGP-Long from 150 coloured demonstrations for a few steps, which are 1.4 GiB of clouds on disk.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numcodecs
import numpy as np
import torch
import zarr

from benchmarks.training import interleaved, table
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.lazy import LazyArray
from mgp.data.store import EpisodeStore
from mgp.policies import policy_class
from mgp.presets import get_config
from mgp.processes import pool
from mgp.workflows.own_data import config_for_store
from mgp.workflows.train import train

STEPS, POINTS, WIDTH = 200, 1024, 6  # of an episode; a frame of 24 kB
FRAMES = 100  # of a training step
CHUNK_BYTES = 2**20  # of the compressed peer


def episodes(count: int, steps: int | None = None) -> Iterator[dict[str, np.ndarray]]:
    """Clouds that compress about as those of a simulator do: surfaces, with noise of a few millimetres, and colours."""
    random, steps = np.random.default_rng(0), steps or STEPS
    for _ in range(count):
        cloud = random.uniform(-0.4, 0.4, (1, POINTS, WIDTH)) + 0.003 * random.normal(size=(steps, POINTS, WIDTH))
        cloud[..., 3:] = np.round(random.uniform(size=(1, POINTS, 3)) * 8) / 8
        state = np.cumsum(0.01 * random.normal(size=(steps, 9)), 0)
        action = np.clip(random.normal(size=(steps, 4)), -1, 1)
        yield {"action": action, "state": state, "cloud": cloud.astype(np.float32)}


def run(count: int = 40, rounds: int = 30) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = EpisodeStore.write(Path(folder, "plain"), episodes(count), range(count), {"actions": "displacement"})
        memory = Demonstrations.from_store(store, memory=2**40)
        lazy = Demonstrations.from_store(store, memory=0)
        assert isinstance(lazy.arrays["cloud"], LazyArray)
        gathers(Path(folder), memory, lazy, rounds)
        steps(memory, lazy, rounds)


def peak(count: int = 150, steps: int = 400, batch: int | None = None) -> None:
    """Peak memory of training in a process of its own; the clouds stay on disk."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "coloured.zarr")
        about = {"env": "mine/coloured", "actions": "absolute", "horizon": steps}
        EpisodeStore.write(data, episodes(count, steps), range(count), about)
        size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
        start = time.perf_counter()
        EpisodeStore.open(data)
        opening = time.perf_counter() - start
        with pool(1) as executor:
            kilobytes = executor.submit(_trained, data, Path(folder, "run"), batch).result()
    print(f"{count} demonstrations, {size / 2**20:.0f} MiB on disk: opened in {1000 * opening:.0f} ms")
    print(f"  training MGP-Long from them takes at most {kilobytes / 1024:.0f} MiB of memory")


def _trained(data: Path, run: Path, batch: int | None) -> int:
    config = config_for_store(data, "mgp-long").changed({"training.steps": 20, "policy.tokenizer.steps": 10})
    train(config.changed({"training.batch": batch or config.training.batch}), run, data)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def gathers(folder: Path, memory: Demonstrations, lazy: Demonstrations, rounds: int) -> None:
    cloud = memory.arrays["cloud"].numpy()
    codec = numcodecs.Blosc("zstd", clevel=3, shuffle=numcodecs.Blosc.SHUFFLE)
    chunks = (CHUNK_BYTES // cloud[0].nbytes, *cloud.shape[1:])
    packed = zarr.create_array(folder / "zstd", data=cloud, chunks=chunks, compressors=codec, zarr_format=2)
    plain = sum(file.stat().st_blocks * 512 for file in (folder / "plain/data/cloud").iterdir())
    small = sum(file.stat().st_blocks * 512 for file in (folder / "zstd").rglob("*"))
    print(f"{len(cloud)} clouds: {plain / 2**20:.0f} MiB plain, {small / 2**20:.0f} compressed ({small / plain:.2f} x)")
    generator = keyed_generator(0)

    def scattered() -> torch.Tensor:
        return torch.randint(len(cloud), (FRAMES,), generator=generator)

    def neighbours() -> torch.Tensor:
        first = torch.randint(len(cloud) - 10, (FRAMES // 10, 1), generator=generator)
        return (first + torch.arange(10)).flatten().unique()

    lazy.arrays["cloud"][:]  # verified once; that costs the first pass alone
    for name, draw in (("scattered", scattered), ("ten by ten", neighbours)):
        ways = {
            "memory": lambda draw=draw: memory.arrays["cloud"][draw()],
            "store": lambda draw=draw: lazy.arrays["cloud"][draw()],
        }
        if draw is scattered:
            ways["zarr, zstd chunks of 1 MiB"] = lambda draw=draw: torch.from_numpy(packed.oindex[draw().numpy()])
        table(f"{FRAMES} frames of {cloud[0].nbytes / 1000:.0f} kB, {name}", "memory", interleaved(ways, rounds))
    fresh = [LazyArray(EpisodeStore.open(folder / "plain").rows("cloud")) for _ in range(rounds + 2)]
    figures = interleaved(
        {"memory": lambda: memory.arrays["cloud"][scattered()], "store, first read": lambda: fresh.pop()[scattered()]},
        rounds,
    )
    table(f"{FRAMES} frames, with their verification", "memory", figures)


def steps(memory: Demonstrations, lazy: Demonstrations, rounds: int) -> None:
    """A whole step of training MGP-Short, forward and backward."""
    config = get_config("mgp-short", "assembly")
    policy = policy_class(config.policy.name).build(config, memory.first(4))
    first, last = policy.stages()
    policy.loss(first, policy.source(first, memory.first(4)).draw(first.batch, keyed_generator(0)), keyed_generator(0))
    policy.begin_stage(last)  # with the codes that this step has drawn
    ways = {}
    for name, data in (("memory", memory), ("store", lazy)):
        source, turn = policy.source(last, data), iter(range(10**6))

        def step(source=source, turn=turn) -> None:  # both draw the same batches
            key = next(turn)
            policy.loss(last, source.draw(last.batch, keyed_generator(key)), keyed_generator(key, 1))[0].backward()

        ways[name] = step
    table("a step of MGP-Short", "memory", interleaved(ways, rounds))


if __name__ == "__main__":
    run()
    peak()
