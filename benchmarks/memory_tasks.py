"""Whether the tasks with memory ask for what they say: `python -m benchmarks.memory_tasks` (five minutes).

For each of them, on the same seeds: the expert; an open-loop replay of what the expert would have done had nothing been
shifted (its actions in the static twin); an expert that has forgotten the cue and acts by one drawn by chance. And what
an episode costs to collect, in CPU time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

import numpy as np

from mgp.data.record import Recorder
from mgp.envs import RobotEnv, make_env

SHIFTED = ("sorting/towel-nudged", "buttons/shifted", "metaworld-memory/pick-place-cue")
SEEDS = range(70_000, 70_100)
TIMED = 4  # episodes
FORGET_STREAM = 0x666F72676574


def succeeds(env: RobotEnv, actions: Iterable[np.ndarray]) -> bool:
    """Whether the present episode is solved by these actions, and standing still after the last of them."""
    done = success = False
    for action in _held(actions):
        if done or success:
            break
        _, terminated, truncated, info = env.advance(action)
        done, success = terminated or truncated, info["success"]
    return bool(success)


def expert_actions(env: RobotEnv) -> Iterator[np.ndarray]:
    act = env.expert()
    while True:
        yield act()


def demonstration(env: RobotEnv, seed: int) -> list[np.ndarray]:
    """What the expert does in an episode, to its end."""
    env.reset(seed=seed)
    actions: list[np.ndarray] = []
    for action in expert_actions(env):
        actions.append(action)
        _, terminated, truncated, _ = env.advance(action)
        if terminated or truncated:
            break
    return actions


def by_expert(env: RobotEnv, seed: int) -> bool:
    env.reset(seed=seed)
    return succeeds(env, expert_actions(env))


def by_replay(env: RobotEnv, twin: RobotEnv, seed: int) -> bool:
    actions = demonstration(twin, seed)
    env.reset(seed=seed)
    return succeeds(env, actions)


def by_forgetting(env: RobotEnv, seed: int) -> bool:
    env.reset(seed=seed)
    env.forget(np.random.default_rng([FORGET_STREAM, seed]))
    return succeeds(env, expert_actions(env))


def cpu_seconds(name: str) -> float:
    """Of an episode recorded with camera clouds."""
    recorder = Recorder(name, "cloud", {})
    recorder(SEEDS[0])  # the world is built, and files are read, once
    start = time.process_time()
    for seed in SEEDS[:TIMED]:
        recorder(seed)
    return (time.process_time() - start) / TIMED


def _held(actions: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    last = None
    for last in actions:
        yield last
    while last is not None:
        yield last


def row(here: RobotEnv, twin: RobotEnv, seeds: range) -> str:
    steps = [here._steps for seed in seeds if by_expert(here, seed)]
    replayed = sum(by_replay(here, twin, seed) for seed in seeds)
    forgot = sum(by_forgetting(here, seed) for seed in seeds)
    took = f"{min(steps, default=0)}-{max(steps, default=0)}"
    return f"{here.name:38}{len(steps):6}{replayed:8}{forgot:11}{took:>9}{cpu_seconds(here.name):7.1f}"


def run(names: Iterable[str] = SHIFTED, seeds: range = SEEDS) -> None:
    print(f"{len(seeds)} episodes, seeds {seeds[0]} to {seeds[-1]}: how many are solved,")
    print("the expert's steps until they are, and CPU seconds of one to collect")
    print(f"{'':38}expert  replay  forgetful    steps  CPU s")
    for name in names:
        env = make_env(name, "state")
        assert env.static_twin is not None
        twin = make_env(env.static_twin, "state")
        for here in (env, twin):
            print(row(here, twin, seeds), flush=True)


if __name__ == "__main__":
    run(seeds=SEEDS[: int(sys.argv[1])] if len(sys.argv) > 1 else SEEDS)
