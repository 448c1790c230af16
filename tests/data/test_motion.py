from __future__ import annotations

import numpy as np

import small
from mgp.data import motion
from mgp.data.spec import DataSpec

PLACE = np.array([True, False])


def test_a_place_is_where_it_says_and_a_displacement_adds_up():
    commands = np.array([[1.0, 1.0], [3.0, 1.0], [6.0, -2.0], [6.0, 0.0]])
    np.testing.assert_array_equal(motion.positions(commands, PLACE), [[1, 1], [3, 2], [6, 0], [6, 0]])
    np.testing.assert_array_equal(motion.velocities(commands, PLACE), [[2, 1], [3, -2], [0, 0]])
    np.testing.assert_array_equal(motion.jerks(commands, PLACE), [[-3 - 1, 2 + 3]])
    np.testing.assert_array_equal(motion.is_place(np.array([np.nan, 0.0])), PLACE)


def test_an_episode_goes_from_rest_to_rest():
    fastest, jerkiest = motion.largest([np.array([[5.0, 1.0]])], PLACE)
    np.testing.assert_array_equal(fastest, [0, 1])  # a place that is stayed at, and one step of 1
    np.testing.assert_array_equal(jerkiest, [0, 2])
    both = motion.largest([np.array([[5.0, 1.0]]), np.array([[0.0, -3.0], [2.0, 0.0]])], PLACE)
    np.testing.assert_array_equal(both[0], [2, 3])


def test_the_spec_of_data_keeps_them_and_old_ones_do_without():
    data = small.demonstrations()
    spec = DataSpec.of(data)
    actions, ends = data.arrays["action"].numpy(), data.ends.tolist()
    place = motion.is_place(spec.hold_command)
    jerks = [np.abs(motion.jerks(one, place)).max(0) for one in np.split(actions, ends[:-1])]
    assert (np.array(spec.jerk) >= np.max(jerks, axis=0) - 1e-6).all()
    np.testing.assert_allclose(spec.velocity[0], np.abs(actions[:, 0]).max(), rtol=1e-6)
    assert DataSpec.from_dict(spec.to_dict()) == spec
    old = {name: value for name, value in spec.to_dict().items() if name not in ("velocity", "jerk")}
    assert DataSpec.from_dict(old).velocity == ()
