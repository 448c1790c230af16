"""[END], [PAD] and [MASK] are words of the network, not motions: whatever it says, none of them is ever decoded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.errors import DataError
from mgp.policies.driver import Driver
from mgp.policies.mgp import MGP
from mgp.runtime import Controller, EnvRobot, Simulated, VirtualClock
from mgp.sampling.long import LongPlanner
from mgp.sampling.sampler import Refined
from wave_robot import WaveEnv

WORDS = small.policy(small.tiny()).transformer.vocabulary


def listened(policy: MGP, monkeypatch) -> list[torch.Tensor]:
    """The tokens that are looked up in the codebook from now on, which is what every decoding does first."""
    heard: list[torch.Tensor] = []
    lookup = policy.tokenizer.codebook.lookup
    monkeypatch.setattr(policy.tokenizer.codebook, "lookup", lambda tokens: heard.append(tokens) or lookup(tokens))
    return heard


def drive(policy: MGP, steps: int = 30) -> np.ndarray:
    """Actions (T, A) of an episode, beyond the end of the plan."""
    driver, out = Driver(policy, [0]), []
    for step in range(steps):
        view = small.frames(policy.config, 1, 1, seed=step)
        out.append(driver.act({key: value[0, 0] for key, value in view.items()}))
    return np.array(out)


def test_the_network_has_no_word_for_padding_and_masks():
    policy = small.policy(small.tiny())
    assert policy.transformer.head.out_features == WORDS.predicted == WORDS.end + 1
    assert {WORDS.pad, WORDS.mask}.isdisjoint(range(WORDS.predicted))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kind", ["short", "long"])
def test_a_network_that_wants_to_end_at_once_is_taken_at_its_second_word(kind, whole, temperature, monkeypatch):
    policy = small.policy(small.tiny(kind, **{"policy.sampling.temperature": temperature}))
    policy.whole = whole
    plain = drive(policy)
    with torch.no_grad():
        policy.transformer.head.bias[WORDS.end] += 1e4
    heard = listened(policy, monkeypatch)
    np.testing.assert_array_equal(drive(policy), plain)
    assert heard
    assert all(int(tokens.max()) < WORDS.codes for tokens in heard)


@pytest.mark.parametrize("kind", ["short", "long"])
def test_a_plan_whose_first_word_should_be_end_goes_on(kind, monkeypatch):
    policy = small.policy(small.tiny(kind))

    def forward(seen, condition, executed):
        logits = torch.zeros(*seen.shape, WORDS.predicted)
        logits[..., 5] = 9.0
        logits[:, 0, WORDS.end] = 99.0
        return logits

    small.plant(policy, forward)
    heard = listened(policy, monkeypatch)
    drive(policy, 1)
    assert all((tokens == 5)[:, 1:].all() and (tokens < WORDS.codes).all() for tokens in heard)
    assert heard


SPECIAL = {
    "all padding": lambda size: [WORDS.pad] * size,
    "end first": lambda size: [WORDS.end] + [WORDS.pad] * (size - 1),
    "end last": lambda size: [3] * (size - 1) + [WORDS.end],
    "a mask is left": lambda size: [3] * (size - 1) + [WORDS.mask],
}


def broken(policy: MGP, tokens: list[int], monkeypatch) -> None:
    """From now on plans are these tokens: no sampler makes such plans, so one is put in its place."""

    def made(*_) -> Refined:
        plan = torch.tensor([tokens])
        return Refined(plan, torch.ones(plan.shape), torch.ones_like(plan))

    policy.whole = False
    monkeypatch.setattr("mgp.policies.mgp.policy.plan_short", made)
    monkeypatch.setattr(LongPlanner, "_first", made)
    monkeypatch.setattr(LongPlanner, "_replan", made)


def on_a_robot(policy: MGP) -> tuple[Controller, WaveEnv]:
    env, clock = WaveEnv("toy/static"), VirtualClock()
    return Controller(policy, EnvRobot(env, 0, clock), clock=clock, worker=Simulated(clock)), env


@pytest.mark.parametrize("kind", ["short", "long"])
@pytest.mark.parametrize("tokens", SPECIAL.values(), ids=SPECIAL)
def test_a_plan_of_specials_holds_the_robot_and_is_told(kind, tokens, monkeypatch):
    policy = small.policy(small.tiny(kind))
    broken(policy, tokens(policy.tokens), monkeypatch)
    controller, env = on_a_robot(policy)
    for _ in range(controller.guards.failures - 1):
        controller.step()
    np.testing.assert_array_equal(np.array(env.actions), 0.0)  # the demonstrations' own way to hold
    assert controller.log.array("held").all()
    assert controller.log.counts["failed"] == controller.guards.failures - 1
    (told,) = (event.text for event in controller.log.events if event.kind == "failed")
    assert "never decode specials" in told
    with pytest.raises(DataError, match="never decode specials"):
        controller.step()


@pytest.mark.parametrize("kind", ["short", "long"])
@pytest.mark.parametrize("tokens", SPECIAL.values(), ids=SPECIAL)
def test_the_plan_in_hand_goes_on_and_then_the_robot_holds(kind, tokens, monkeypatch):
    policy = small.policy(small.tiny(kind))
    controller, _ = on_a_robot(policy)
    controller.step()
    hand = controller.driver.chunk.actions[0]  # (T, A)
    broken(policy, tokens(policy.tokens), monkeypatch)
    heard = listened(policy, monkeypatch)
    steps = min(len(hand), 8)
    for _ in range(steps):  # four of the plan, then one that fails in each step
        controller.step()
    wanted = controller.log.array("wanted")
    np.testing.assert_allclose(wanted[: len(hand)], hand[: steps + 1], rtol=1e-5, atol=1e-6)
    assert controller.log.array("held").tolist() == [step >= len(hand) for step in range(steps + 1)]
    assert controller.log.counts["failed"] >= 3
    assert not [one for one in heard if int(one.max()) >= WORDS.codes]
