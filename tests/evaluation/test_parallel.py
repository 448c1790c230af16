from functools import partial

import numpy as np
import pytest
from toy_robot import DyingPolicy, ToyEnv, ToyPolicy, load_broken, make_toy

from mgp.errors import ConfigError, SimulationError
from mgp.evaluation import Job, Missing, Recording, run_episodes

SEEDS = list(range(7, 14))


def outcomes(results):
    return [(r.seed, r.success, r.success_step, r.steps, r.missing) for r in results]


def test_parallel_equals_serial_in_seed_order():
    job = Job(
        ToyPolicy,
        partial(make_toy, horizon=30),
        missing=Missing(0.5, burst=2),
        recording=Recording((8,), every=5, size=4),
    )
    serial = run_episodes(job, SEEDS, workers=1, batch=3, progress=False)
    parallel = run_episodes(job, SEEDS, workers=2, batch=3, progress=False)
    assert [r.seed for r in parallel] == SEEDS
    assert outcomes(parallel) == outcomes(serial)
    np.testing.assert_array_equal(parallel[1].pictures, serial[1].pictures)
    np.testing.assert_array_equal(parallel[1].trace.tokens, serial[1].trace.tokens)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_worker_arrives_as_itself(workers):
    with pytest.raises(ConfigError, match=r"unknown policy 'mpg'.*Did you mean 'mgp'"):
        run_episodes(Job(load_broken, ToyEnv), SEEDS, workers=workers, batch=2, progress=False)


def test_a_worker_that_dies_is_named():
    with pytest.raises(SimulationError, match="worker died"):
        run_episodes(Job(DyingPolicy, ToyEnv), SEEDS, workers=2, batch=2, progress=False)


def test_environments_are_reused_and_closed():
    made = []

    def make():
        made.append(ToyEnv(horizon=10))
        return made[-1]

    results = run_episodes(Job(ToyPolicy, make), SEEDS, workers=1, batch=3, progress=False)
    assert len(results) == 7
    assert len(made) == 3
    assert all(env.closed for env in made)


def test_torch_threads_are_given_back():
    import torch

    before = torch.get_num_threads()
    run_episodes(Job(ToyPolicy, ToyEnv), [1], workers=1, progress=False)
    assert torch.get_num_threads() == before


def test_impossible_requests_are_refused():
    with pytest.raises(ConfigError, match="batch=0"):
        run_episodes(Job(ToyPolicy, ToyEnv), SEEDS, batch=0)
    with pytest.raises(ConfigError, match="workers=0"):
        run_episodes(Job(ToyPolicy, ToyEnv), SEEDS, workers=0)
