"""What a store may say of its recordings."""

from __future__ import annotations

import numpy as np
import pytest

from mgp.data.description import checked_meta, hold_command, state_places
from mgp.data.store import EpisodeStore
from mgp.errors import DataError


def test_what_is_said_comes_back(tmp_path):
    meta = {
        "env": "mine/task",
        "observation": "cloud",
        "options": {"points": 8},
        "horizon": np.int64(9),
        "hold_action": np.array([0, 0.5, np.nan]),
        "actions": "absolute",
        "place": {"free": [1, 2]},
    }
    path = EpisodeStore.write(tmp_path / "demos", [{"action": np.zeros((4, 3))}], [0], meta).path
    said = EpisodeStore.open(path).meta
    assert said == {**meta, "horizon": 9, "hold_action": [0.0, 0.5, None]}
    np.testing.assert_array_equal(hold_command(said, 3), np.array([0, 0.5, np.nan], np.float32))
    assert checked_meta("here", said, 3) == said
    assert checked_meta("here", {}, 3) == {}


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({"env": ""}, "env = ''"),
        ({"observation": 3}, "observation = 3"),
        ({"options": None}, "options = None"),
        ({"horizon": 0}, "horizon = 0 must be"),
        ({"horizon": 2.5}, r"horizon = 2\.5"),
        ({"points": -1}, "points = -1 must be"),
        ({"points": "all"}, "points = 'all' must be"),
        ({"actions": "delta"}, "actions = 'delta' must be one of 'displacement', 'absolute'"),
        ({"hold_action": [0.0]}, "must be 2 finite numbers"),
        ({"hold_action": [0.0, np.inf]}, "must be 2 finite numbers"),
        ({"hold_action": ["a", 0]}, "list of numbers or None"),
        ({"hold_action": 0.0}, "list of numbers or None"),
        ({"note": np.nan}, "JSON"),
        ({"note": object()}, "JSON"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, meta, named):
    with pytest.raises(DataError, match=named):
        EpisodeStore.write(tmp_path / "demos", [{"action": np.zeros((4, 2))}], [0], meta)
    assert not (tmp_path / "demos").exists()


def test_how_much_of_a_state_are_places():
    assert [state_places({}, width) for width in (3, 9, 4, 8)] == [1, 3, 0, 0]
    assert [state_places({"points": 1}, width) for width in (3, 9, 4)] == [1, 1, 1]
    assert state_places({"points": 0}, 6) == 0, "six joints"
    with pytest.raises(DataError, match="points = 3 are 9 numbers, a state has 8"):
        state_places({"points": 3}, 8)


def test_a_store_that_does_not_say_how_to_hold_still_is_told_so():
    with pytest.raises(DataError, match=r"mine does not say how to hold still.* 4 numbers"):
        hold_command({}, 4, "mine")
