import numpy as np
import pytest
from toy_robot import ToyEnv, ToyPolicy

from mgp.errors import ConfigError, SimulationError
from mgp.evaluation import Missing, Recording, rollout
from mgp.policies.base import Chunk
from mgp.policies.random import RandomPolicy

SEEDS = [3, 4, 5, 6]


def outcomes(results):
    return [(r.seed, r.success, r.success_step, r.steps, r.replans) for r in results]


def test_only_the_frames_the_policy_sees_are_looked_at():
    env, policy = ToyEnv(horizon=20, reach=0), ToyPolicy(history=2, execution_horizon=5)
    rollout(policy, [env], [3])
    assert env.looks == [0, 4, 5, 9, 10, 14, 15]  # the first, then the last two of each chunk; none after the last plan
    assert [frames[0, :, 2].tolist() for frames in policy.frames_seen] == [[0, 0], [4, 5], [9, 10], [14, 15]]


def test_a_history_longer_than_the_chunk_keeps_older_frames():
    env, policy = ToyEnv(horizon=6, reach=0), ToyPolicy(history=4, execution_horizon=2)
    rollout(policy, [env], [3])
    assert [frames[0, :, 2].tolist() for frames in policy.frames_seen] == [[0, 0, 0, 0], [0, 0, 1, 2], [1, 2, 3, 4]]
    assert env.looks == [0, 1, 2, 3, 4]


def test_a_blind_policy_costs_no_looks():
    env = ToyEnv(horizon=20, reach=0)
    rollout(RandomPolicy([-1], [1]), [env], [3])
    assert env.looks == [0]  # that of reset


def test_horizon_need_not_be_a_multiple_of_the_chunk():
    (result,) = rollout(ToyPolicy(execution_horizon=8), [ToyEnv(horizon=20, reach=0)], [3])
    assert (result.steps, result.replans, result.success) == (20, 3, False)


def test_success_counts_at_any_step_and_stops_the_episode():
    envs = [ToyEnv(horizon=30) for _ in SEEDS]
    results = rollout(ToyPolicy(), envs, SEEDS)
    assert all(r.success and r.success_step == r.steps < 30 for r in results)
    assert [env.steps for env in envs] == [r.steps for r in results]  # no step after success
    assert len({r.steps for r in results}) > 1  # the goals differ


def test_full_length_goes_on_after_success():
    stopped = rollout(ToyPolicy(), [ToyEnv(horizon=30)], [3])[0]
    (full,) = rollout(ToyPolicy(), [ToyEnv(horizon=30)], [3], full_length=True)
    assert full.steps == 30
    assert full.success_step == stopped.success_step


def test_batched_equals_single():
    batched = rollout(ToyPolicy(), [ToyEnv(horizon=30) for _ in SEEDS], SEEDS, missing=Missing(0.3))
    single = [rollout(ToyPolicy(), [ToyEnv(horizon=30)], [seed], missing=Missing(0.3))[0] for seed in SEEDS]
    assert outcomes(batched) == outcomes(single)
    assert [r.missing for r in batched] == [r.missing for r in single]


def test_recording_keeps_pictures_and_the_trace_of_the_chosen_episode_only():
    recording = Recording(seeds=(4,), every=4, size=8)
    results = rollout(ToyPolicy(), [ToyEnv(horizon=30) for _ in SEEDS], SEEDS, recording=recording)
    chosen = results[1]
    assert chosen.pictures.shape == (len(chosen.picture_steps), 8, 8, 3)
    assert chosen.picture_steps == (*range(0, chosen.steps, 4), chosen.steps)  # and the moment of success
    assert [int(p[0, 0, 0]) for p in chosen.pictures] == list(chosen.picture_steps)
    assert len(chosen.trace.executed) == chosen.replans  # not those planned while its neighbours ran on
    assert [r.trace is None and r.pictures is None for r in results] == [True, False, True, True]


def test_an_environment_without_pictures_can_be_recorded():
    class Dark(ToyEnv):
        def picture(self, size=160):
            raise NotImplementedError

    (result,) = rollout(ToyPolicy(), [Dark()], [3], recording=Recording((3,)))
    assert result.pictures is None
    assert result.trace is not None


def test_ticks_tell_each_outcome_once():
    ticks = []
    results = rollout(ToyPolicy(), [ToyEnv(horizon=18) for _ in SEEDS], SEEDS, tick=ticks.extend)
    assert sorted(ticks) == sorted(r.success for r in results)
    assert len(set(ticks)) == 2


def planning(actions: np.ndarray, run: int) -> ToyPolicy:
    policy = ToyPolicy()
    policy.plan = lambda observation, memory, observed=None, executed=None: Chunk(actions, run)
    return policy


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_actions_that_are_no_numbers_are_refused(bad):
    with pytest.raises(SimulationError, match="NaN or Inf"):
        rollout(planning(np.full((1, 5, 1), bad), 5), [ToyEnv()], [3])


def test_what_will_not_be_run_may_be_anything():
    actions = np.zeros((1, 5, 1))
    actions[:, 4:] = np.nan
    (result,) = rollout(planning(actions, 4), [ToyEnv(horizon=20)], [3])
    assert (result.steps, result.replans) == (20, 5)


@pytest.mark.parametrize(("shape", "run"), [((1, 5, 4), 5), ((2, 5, 1), 5), ((1, 5, 1), 6), ((1, 5, 1), 0)])
def test_actions_of_the_wrong_shape_or_number_are_refused(shape, run):
    with pytest.raises(SimulationError) as caught:
        rollout(planning(np.zeros(shape), run), [ToyEnv()], [3])
    assert f"shape {shape}, {run} of them to run; expected 1 episodes and 1 numbers" in str(caught.value)


def test_the_last_command_is_noted_for_a_robot_that_must_hold():
    last = []

    class Noting(ToyPolicy):
        def plan(self, observation, memory, observed=None, executed=None):
            last.append((memory.last.item(), executed))
            return super().plan(observation, memory, observed, executed)

    env = ToyEnv(horizon=10, reach=0)
    rollout(Noting(noise=0.0), [env], [3])
    assert last == [(0.0, None), (1.0, 5)]


def test_impossible_requests_are_refused():
    with pytest.raises(ConfigError, match=r"2 episodes .* got 1"):
        rollout(ToyPolicy(), [ToyEnv()], [3, 4])
