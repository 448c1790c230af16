"""What may reach a policy: good frames, new ones, in their order."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from robots import Cloudy, Counting

from mgp.runtime.guards import Guards, Watch
from mgp.runtime.robot import Reading

exactly = settings(derandomize=True, deadline=None, max_examples=100)


def good(step: float = 0.0) -> dict[str, np.ndarray]:
    return {"state": np.array([step, 0.5], np.float32)}


def watch(**options) -> Watch:
    return Watch(Counting(), Guards(**options))


def test_a_good_frame_is_copied():
    frame = good(3)
    seen = watch()(Reading(frame, 10.0, 1), 10.0)
    frame["state"][:] = 9  # a robot that uses its arrays again
    assert seen.kind == ""
    assert seen.frame["state"].tolist() == [3, 0.5]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"state": np.array([np.nan, 0])}, "NaN or Inf"),
        ({"state": np.array([np.inf, 0])}, "NaN or Inf"),
        ({"state": np.zeros(3)}, "trained on"),
        ({"state": np.zeros((0, 2))}, "trained on"),
        ({"state": np.array(["a", "b"])}, "numbers are needed"),
        ({"state": np.array([1, None])}, "numbers are needed"),
        ({"state": [[1], [2, 3]]}, ""),
        ({"cloud": np.zeros(2)}, "has no 'state'"),
        ({}, "has no 'state'"),
        ({"state": np.array([1e6, 0])}, "allowed is -1000 to 1000"),
        ("a picture", ""),
        (7, ""),
    ],
)
def test_a_bad_frame_is_refused_by_name_and_leaves_no_trace(frame, said):
    look = watch()
    seen = look(Reading(frame, 10.0, 5), 10.0)
    assert seen.frame is None
    assert seen.kind == "refused"
    assert said in seen.text
    assert look(Reading(good(), 9.95, 4), 10.0).frame is not None, "what was refused is no measure for the next"


def test_an_empty_cloud_is_refused_by_name_and_leaves_no_trace():
    """A camera that sees nothing in range gives one; no least and greatest number can be asked of it."""
    look = Watch(Cloudy(), Guards())
    seen = look(Reading({"cloud": np.zeros((0, 3), np.float32)}, 10.0, 5), 10.0)
    assert seen == (None, "refused", "'cloud' has shape (0, 3), the policy was trained on (16, 3)")
    assert look(Reading(Cloudy.frame(), 9.95, 4), 10.0).frame is not None


def test_ranges_can_be_set_by_key_and_whole_numbers_have_none():
    assert watch(ranges={"state": (0, 1)})(good(2), 0.0).kind == "refused"
    assert watch(ranges={"state": (0, 1e7)})({"state": np.array([1e6, 0])}, 0.0).frame is not None
    assert watch()({"state": np.array([100_000, 0])}, 0.0).frame is not None


def test_what_is_old_counts_as_missing():
    look = watch(age=0.2)
    assert look(Reading(good(), 9.79), 10.0).kind == "stale"
    assert look(Reading(good(), 9.81), 10.0).frame is not None
    assert look(Reading(good(), 10.04), 10.0).frame is not None, "clocks differ a little"
    assert look(Reading(good(), 10.2), 10.0).kind == "ahead"
    assert look(Reading(good(), float("nan")), 10.0).kind == "refused"


def test_the_same_frame_twice_and_frames_in_the_wrong_order_count_as_missing():
    by_time = [(10.0, None), (10.0, None), (9.95, None), (10.05, None)]
    by_number = [(10.0, 3), (10.02, 3), (10.03, 2), (10.0, 4)]
    for stamps in (by_time, by_number):
        look = watch()
        kinds = [look(Reading(good(), *stamp), 10.06).kind for stamp in stamps]
        assert kinds == ["", "duplicate", "out of order", ""]


def test_without_a_stamp_every_frame_is_new():
    look = watch()
    assert [look(good(), now).kind for now in (1.0, 1.05, 1.1)] == ["", "", ""]
    assert look(None, 1.2).kind == "missing"


@exactly
@given(
    st.lists(
        st.tuples(
            st.floats(-0.5, 0.5), st.one_of(st.none(), st.integers(0, 12)), st.sampled_from(["good", "nan", "none"])
        ),
        max_size=40,
    )
)
def test_whatever_comes_only_new_and_good_frames_get_through_in_order(readings):
    look, passed = watch(), []
    for step, (offset, number, kind) in enumerate(readings):
        now = 0.05 * step
        frame = {"good": good(step), "nan": {"state": np.array([np.nan, 0])}, "none": None}[kind]
        seen = look(None if frame is None else Reading(frame, now + offset, number), now)
        assert (seen.frame is None) == bool(seen.kind)
        if seen.frame is not None:
            assert kind == "good"
            assert -0.2 - 1e-9 <= offset <= 0.05 + 1e-9
            passed.append((now + offset, number))
    for before, after in pairwise(passed):
        if before[1] is not None and after[1] is not None:
            assert after[1] > before[1]
        else:
            assert after[0] > before[0]
