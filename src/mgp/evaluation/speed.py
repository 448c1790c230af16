"""Policies timed against each other at batch 1, on the same frames.

They take turns, with each number of threads, for several rounds: a machine that slows down hits all alike. In a turn a
policy drives whole episodes for about a second after one plan that is not timed, which brings its weights back into the
caches. A plan that takes longer than a turn is a turn of its own, and whoever has thought for long enough sits out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import nn

from mgp.evaluation.idle import REST, Others, watched
from mgp.evaluation.latency import episode_times, first_plans
from mgp.evaluation.replay import Replay
from mgp.policies.acting import torch_threads
from mgp.policies.base import Policy

ROUNDS = 5
TURN = 1.0  # seconds
ENOUGH = 40.0  # seconds of thinking after which a policy takes no more turns


@dataclass
class Times:
    """Milliseconds of one policy with one number of threads."""

    replans: list[float] = field(default_factory=list)
    encoding: list[float] = field(default_factory=list)  # part of each: observations to the condition
    sequences: list[float] = field(default_factory=list)  # all plans of a whole episode; none if it is too slow

    @property
    def enough(self) -> bool:
        return sum(self.replans) > 1e3 * ENOUGH


@dataclass
class Race:
    times: dict[tuple[str, int], Times]  # by policy and number of threads
    machine: Others = field(default_factory=Others)  # in the busiest round


def race(
    policies: Mapping[str, Policy],
    episode: Replay,
    threads: Sequence[int] = (1, 2),
    rounds: int = ROUNDS,
    seconds: float = TURN,
    rest: float = REST,
    tick: Callable[[str], None] = lambda name: None,
) -> Race:
    """`tick` is called with a policy's name before each of its turns."""
    times = {(name, count): Times() for count in threads for name in policies}
    machines = []
    for _ in range(rounds):
        with watched(rest) as machine:
            for (name, count), mine in times.items():
                if not mine.enough:
                    tick(name)
                    with torch_threads(count):
                        turn(policies[name], episode, mine, seconds)
        machines.append(machine)
    unknown = any(machine.cores is None for machine in machines)
    return Race(times, Others(None if unknown else max(machine.cores or 0.0 for machine in machines)))


def turn(policy: Policy, episode: Replay, times: Times, seconds: float) -> None:
    begin = time.perf_counter()
    with encoder_times(policy) as encoding:
        first_plans(policy, episode, 0, 1)
        took = time.perf_counter() - begin
        if took > seconds:  # beside which nothing that only a first plan does matters
            times.replans.append(1e3 * took)
            times.encoding += encoding
            return
        encoding.clear()
        begin = time.perf_counter()
        episode.deadline = begin + seconds
        sequence = 0.0  # seconds of the last one; later ones are begun only if they fit
        while time.perf_counter() + sequence <= begin + seconds:
            plans, _ = episode_times(policy, episode, 0)
            times.replans += plans.tolist()
            sequence = float(plans.sum()) / 1e3
            if not episode.whole:
                break
            times.sequences.append(1e3 * sequence)
            episode.deadline = float("inf")
        times.encoding += encoding


@contextmanager
def encoder_times(policy: Policy) -> Iterator[list[float]]:
    """Collects the milliseconds of each run of `policy.encoder`, if it has one."""
    encoder = getattr(policy, "encoder", None)
    begun: list[float] = []
    spent: list[float] = []
    if not isinstance(encoder, nn.Module):
        yield spent
        return
    hooks = [
        encoder.register_forward_pre_hook(lambda *_: begun.append(time.perf_counter())),
        encoder.register_forward_hook(lambda *_: spent.append(1e3 * (time.perf_counter() - begun.pop()))),
    ]
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()
