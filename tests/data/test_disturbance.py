"""Demonstrations in which the robot is pushed: what is recorded is what the expert wanted."""

from __future__ import annotations

import numpy as np
import pytest

from mgp.data.collect import collect
from mgp.data.disturbance import KEPT, Disturbance
from mgp.data.record import Recorder
from mgp.data.store import EpisodeStore
from mgp.errors import DataError

SORTING = ("sorting/towel", "state", {})


def pushes(seed: int, steps: int = 4000) -> np.ndarray:
    pushed = Disturbance((0.008, 0.0), seed)
    return np.stack([pushed(np.zeros(2)) for _ in range(steps)])


def test_pushes_are_slow_have_the_deviation_and_follow_from_the_seed():
    there = pushes(1)
    assert np.array_equal(there, pushes(1))
    assert not np.array_equal(there, pushes(2))
    assert there[:, 0].std() == pytest.approx(0.008, rel=0.15)
    assert not there[:, 1].any()
    assert np.corrcoef(there[1:, 0], there[:-1, 0])[0, 1] == pytest.approx(KEPT, abs=0.03)


def test_the_robot_is_beside_its_way_and_the_command_is_the_experts():
    plain, pushed = (Recorder(*SORTING, disturbed)(3) for disturbed in (False, True))
    steps = min(len(plain["action"]), len(pushed["action"]))
    assert pushed["success"].any()
    assert np.array_equal(plain["action"][:steps], pushed["action"][:steps])
    beside = np.linalg.norm(plain["state"][:steps, :3] - pushed["state"][:steps, :3], axis=1)
    assert np.median(beside) > 0.004
    assert beside.max() < 0.05


def test_a_recording_says_so_and_is_not_mixed_with_others(tmp_path):
    name, observation, options = SORTING
    collect(name, tmp_path / "pushed", 1, observation=observation, workers=1, progress=False)
    collect(name, tmp_path / "plain", 1, observation=observation, workers=1, progress=False, disturbed=False)
    assert EpisodeStore.open(tmp_path / "pushed").meta["disturbance"][:3] == [0.008, 0.008, 0.004]
    assert "disturbance" not in EpisodeStore.open(tmp_path / "plain").meta
    for path, disturbed in (("pushed", False), ("plain", True)):
        with pytest.raises(DataError, match=r"disturbance .* \(asked: .*--force"):
            collect(
                *(name, tmp_path / path, 2, 0, observation, options, 1),
                progress=False,
                disturbed=disturbed,
            )


def test_meta_worlds_experts_see_where_they_are_and_are_left_alone():
    assert Recorder("metaworld/reach", "state", {}).disturbance == ()
