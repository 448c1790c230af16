"""What happened between two requests is made up for: the driver acts as if it had been asked at every step."""

from __future__ import annotations

import numpy as np
import pytest
import served

from mgp.policies.driver import Driver
from mgp.runtime.request import Address, Request
from mgp.runtime.session import Session


def begun(policy, address=Address(), seed=0, **words) -> Session:  # noqa: B008 (frozen)
    session = Session(address, max_age=1.0)
    session.begin(Driver(policy, [seed]), Request({}, **words))
    return session


def reply(session: Session, frame, beyond: int = 0, **words) -> np.ndarray:
    session.looked = session.follow(Request({}, beyond=beyond, **words), frame)
    if session.due:
        session.driver.plan()
    return session.rest(beyond)


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_asked_at_every_step_it_is_what_act_does(horizon):
    policy, frames = served.policy(horizon), [*served.frames(14), None, None, *served.frames(14, 1)]
    session = begun(policy)
    got = [reply(session, frame, step=step)[0] for step, frame in enumerate(frames)]
    np.testing.assert_array_equal(got, served.acted(policy, frames))


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_a_stock_client_that_runs_whole_replies(horizon):
    """As if the frames between had not arrived."""
    policy, frames = served.policy(horizon), served.frames(6)
    session = begun(policy)
    got = np.concatenate([reply(session, frame) for frame in frames])
    shown = [one for frame in frames for one in (frame, None, None, None)]
    np.testing.assert_array_equal(got, served.acted(policy, shown))
    assert (session.step, session.looked) == (20, "after-gap")


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_a_stock_client_that_says_its_steps_in_the_address(horizon):
    policy, frames = served.policy(horizon), served.frames(12)
    session = begun(policy, Address(steps=1))
    replies = [reply(session, frame) for frame in frames]
    assert [len(one) for one in replies] == [4, 3, 2, 1] * 3, "until the next plan is due"
    np.testing.assert_array_equal([one[0] for one in replies], served.acted(policy, frames))


def test_what_was_run_counts_not_the_clock():
    """A robot that held for a while has not run the plan meanwhile."""
    session = begun(served.policy("long"))
    first = reply(session, served.frames(1)[0], step=0)
    again = reply(session, served.frames(2)[1], step=9, executed=1)
    np.testing.assert_array_equal(first[1:], again)
    assert session.looked == "after-gap"


def test_nobody_can_have_run_more_than_he_was_sent():
    session = begun(served.policy("long"))
    reply(session, served.frames(1)[0], step=0)
    reply(session, served.frames(2)[1], step=500)
    assert session.driver.memory.steps == 4


def test_actions_beyond_the_next_plan_are_sent_if_asked_for():
    policy = served.policy("long")
    session, frame = begun(policy), served.frames(1)[0]
    assert len(reply(session, frame, beyond=5, step=0)) == 9
    assert len(reply(session, frame, beyond=1000, step=1)) == policy.spec.horizon - 1, "as far as there are any"
    reply(session, frame, beyond=6, step=1, executed=0)
    assert len(reply(session, frame, step=6, executed=5)) == 4, "it was due, and planned again"


def test_an_unanswered_request_does_not_count_actions_twice():
    session = begun(served.policy("long"))
    first = reply(session, served.frames(1)[0], step=0)
    session.follow(Request({}, step=1, executed=1), None)  # and then no reply
    again = reply(session, served.frames(2)[1], step=2, executed=2)
    np.testing.assert_array_equal(first[2:], again)


@pytest.mark.parametrize(
    ("before", "now", "looked"),
    [
        ({"step": 3}, {"step": 4}, "seen"),
        ({"step": 3}, {"step": 3}, "stale"),
        ({"step": 3}, {"step": 2}, "stale"),
        ({"step": 3}, {"step": 6}, "after-gap"),
        ({"time": 5.0}, {"time": 5.1, "executed": 1}, "seen"),
        ({"time": 5.0}, {"time": 5.0, "executed": 1}, "stale"),
        ({"time": 5.0}, {"time": 4.0, "executed": 1}, "stale"),
        ({"time": 5.0, "sent": 5.9}, {"time": 6.0, "sent": 6.9, "executed": 1}, "seen"),
        ({"time": 5.0}, {"time": 6.0, "sent": 7.1, "executed": 1}, "stale"),
        ({"time": 5.0}, {"time": 6.0, "sent": 5.9, "executed": 1}, "stale"),
        ({"time": 5.0}, {"missing": True, "executed": 1}, "missing"),
    ],
)
def test_stale_frames_count_as_missing(before, now, looked):
    policy, (first, second) = served.policy(), served.frames(2)
    session = begun(policy, **{key: value for key, value in before.items() if key == "step"})
    reply(session, first, **before)
    reply(session, None if now.get("missing") else second, **now)
    assert session.looked == looked
    assert (session.driver.histories[0].newest[-1] is second) == (looked in ("seen", "after-gap"))
    assert session.driver.histories[0].gap == (looked in ("stale", "missing"))


def test_when_an_episode_begins():
    session = Session(Address(seed=7))
    assert session.begins(Request({}))
    assert session.seed(Request({})) == 7
    assert session.seed(Request({}, seed=2)) == 2
    session.begin(Driver(served.policy(), [0]), Request({}))
    assert (session.episode, session.begins(Request({}))) == (0, False)
    assert session.begins(Request({}, reset=True))
    assert session.begins(Request({}, episode="b"))
    session.begin(Driver(served.policy(), [0]), Request({}, episode="b"))
    assert not session.begins(Request({}, episode="b"))
    assert session.begins(Request({}, episode="c"))
