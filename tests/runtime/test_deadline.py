"""Ten thousand closed-loop calls beside processes that take the processor away, and an hour of made-up time."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections import Counter

import numpy as np
import pytest

import small
from mgp.processes import cores
from mgp.runtime import Controller, EnvRobot, Simulated, SystemClock, VirtualClock
from wave_robot import WaveEnv

PERIOD = 50.0  # milliseconds, of 20 Hz
CALLS = 10_000
RATE = 50.0  # faster than 20 Hz, so that it takes minutes


def burn(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(10_000))


@pytest.fixture
def _load():
    """A busy process for every core."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=burn, args=(os.getpid(),)) for _ in range(cores())]
    for process in processes:
        process.start()
    time.sleep(2.0)
    yield
    for process in processes:
        process.kill()
        process.join()


class Stamped(WaveEnv):
    def __init__(self, horizon: int = small.HORIZON):
        super().__init__("toy/static", horizon)
        self.stamps: list[float] = []  # of the commands of an episode

    def advance(self, action):
        self.stamps.append(time.monotonic())
        assert np.isfinite(action).all()
        return super().advance(action)


@pytest.mark.slow
@pytest.mark.usefixtures("_load")
@pytest.mark.parametrize("kind", ["short", "long"])
def test_under_load_a_command_comes_in_every_period_and_no_action_is_missed(kind):
    policy = small.policy(small.tiny(kind, **{"policy.tokenizer.window": 16}))
    env, clock, counts = Stamped(), SystemClock(), Counter[str]()
    spent, gaps, thinking, held = [], [], [], []
    while len(spent) < CALLS:
        robot = EnvRobot(env, len(spent), clock, full_length=True)
        env.stamps.clear()
        with Controller(policy, robot, RATE, clock=clock) as controller:
            while not robot.done:
                start = time.monotonic()
                controller.step()
                spent.append(1e3 * (time.monotonic() - start))
                controller._pace()
        assert len(env.stamps) == small.HORIZON, "a command or a hold in every step"
        log = controller.log
        gaps += (1e3 * np.diff(env.stamps)).tolist()
        thinking += [1e3 * one.seconds for one in log.plans]
        first = log.plans[0].came if log.plans else small.HORIZON
        held += log.array("held")[first:].tolist()  # before the first plan there is nothing to run
        counts += log.counts
    quantiles = "p50 {:.2f}, p99 {:.2f}, p99.9 {:.2f}, max {:.2f} ms"
    for name, values in (("a step", spent), ("between commands", gaps), ("a plan", thinking)):
        print(f"\n{kind}, {name}: " + quantiles.format(*np.quantile(values, (0.5, 0.99, 0.999, 1))), end="")
    print(f"\n{kind}: {len(spent)} steps, {np.mean(held):.2%} held for want of a plan, {dict(counts)}")
    assert np.quantile(spent, 0.99) < PERIOD
    assert np.quantile(gaps, 0.99) < PERIOD + 1e3 / RATE
    assert np.mean(held) < 0.01, "the plan in hand bridges what is late"


@pytest.mark.slow
def test_memory_and_latency_stay_as_they_are_over_an_hour_of_made_up_time():
    """72 000 steps, an hour at 20 Hz."""
    policy, clock = small.policy(small.tiny("short", **{"policy.tokenizer.window": 16})), VirtualClock()
    env = Stamped(horizon=10**9)
    controller = Controller(
        policy, EnvRobot(env, 0, clock, full_length=True), clock=clock, worker=Simulated(clock, 0.1)
    )
    used, spent = [], []
    for _ in range(6):
        start = time.process_time()
        for _ in range(12_000):
            controller.step()
            clock.sleep(1 / controller.rate)
            env.actions.clear()
            env.stamps.clear()
        spent.append(time.process_time() - start)
        used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"\nMB {[round(value) for value in used]}, CPU-ms a step {[round(value / 12, 3) for value in spent]}")
    assert spent[-1] < 1.5 * spent[1]
    assert used[-1] - used[1] < 200, "the log grows, up to 100 000 steps of it"
