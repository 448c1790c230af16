"""What every learned policy keeps to, whichever it is: one registered later is tested here without another word."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from typing import Any

import fit
import numpy as np
import pytest
import torch

import small
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.spec import DataSpec
from mgp.errors import ConfigError, DataError, ObservationError, UnknownNameError
from mgp.policies import POLICIES, methods, policy_class
from mgp.policies.base import Memory
from mgp.policies.config import RunConfig
from mgp.policies.files import load_checkpoint, save_policy
from mgp.policies.learned import LearnedPolicy

RUN = 4  # actions of a chunk that are run, by a policy that does not look at every step
Frames = dict[str, Any]

every_method = small.every_method


def config_of(method: str, observation: str = "state", **changes: Any) -> RunConfig:
    """Small, and with chance in it where a policy may be sampled so."""
    config = small.tiny_of(method, observation, **changes)
    if config.policy.sampling.execution_horizon > 1:
        config = config.changed({"policy.sampling.execution_horizon": RUN})
    if hasattr(config.policy.sampling, "temperature"):
        config = config.changed({"policy.sampling.temperature": 1.0})
    return config


@functools.cache
def trained(method: str, observation: str = "state") -> LearnedPolicy:
    return fit.fit(config_of(method, observation))[0]


def run(policy: LearnedPolicy, memory: Memory, view: Frames, observed: np.ndarray | None = None) -> np.ndarray:
    """The actions of a plan that are run, (B, run, A), written down as a driver does."""
    chunk = policy.plan(view, memory, observed)
    actions = chunk.actions[:, : chunk.run]
    memory.last = actions[:, -1]
    return actions


def rounds(policy: LearnedPolicy, rows: list[int], arrivals: np.ndarray) -> np.ndarray:
    """Plans of several episodes, (B, rounds, run, A); episode = seed = row."""
    memory, out = policy.begin(rows), []
    for step, observed in enumerate(arrivals):
        view = small.frames(policy.config, arrivals.shape[1], policy.frames, seed=step)
        out.append(run(policy, memory, {key: value[rows] for key, value in view.items()}, observed[rows]))
    return np.stack(out, axis=1)


ALL = np.ones((3, 3), bool)
GAPS = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 1, 1]], bool)

# --- the registry -----------------------------------------------------------------------------------------------------


def test_every_policy_has_a_method_and_every_method_its_policy():
    owners = {name: method.policy.name for name, method in methods().items()}
    assert set(owners.values()) == set(POLICIES)
    for name, method in methods().items():
        assert isinstance(method.policy, policy_class(owners[name]).Config), name
    assert set(POLICIES) == {owners[name] for name in small.METHODS}, "all are tested"
    with pytest.raises(UnknownNameError, match="unknown policy 'mpg'"):
        policy_class("mpg")


@every_method
@pytest.mark.parametrize("actions", ["displacement", "absolute"])
def test_a_configuration_survives_json(method, actions):
    config = methods()[method].config(method, small.tiny().task, actions)
    assert RunConfig.from_json(config.to_json()) == config
    assert RunConfig.from_json(config_of(method).to_json()) == config_of(method)


@every_method
def test_a_policy_refuses_the_settings_of_another(method):
    config = config_of(method)
    other = next(name for name in methods() if methods()[name].policy.name != config.policy.name)
    with pytest.raises(ConfigError, match="was given the settings of"):
        policy_class(config.policy.name)(config_of(other), small.spec(config))


# --- training ---------------------------------------------------------------------------------------------------------


# The baselines learn by heart in files of their own, which look at the actions: a loss may keep a floor whatever was
# learned (of a velocity), or fall slowly (of noise).
BY_HEART = {
    "dp", "dp3", "dp3-full", "consistency-policy", "flow-policy", "mp1", "mip", "act", "quest", "vqbet", "prise",
    "resnet-t",
}  # fmt: skip


@pytest.mark.parametrize("method", [method for method in small.METHODS if method not in BY_HEART])
def test_a_policy_learns_an_episode_by_heart(method):
    config = config_of(method, **{"training.steps": 100, "training.batch": 16, "encoder.dim": 16})
    _, losses = fit.fit(config, small.demonstrations(lengths=(24,)), learning_rate=1e-2)
    loss = losses[list(losses)[-1]]
    assert np.mean(loss[-10:]) < 0.5 * np.mean(loss[:5])


@every_method
def test_training_moves_every_parameter_of_a_stage_and_no_other(method):
    """Frozen parts stay to the bit, whatever `train()` and the optimizer are asked to do."""
    config = config_of(method, "cloud", **{"training.auxiliary": 1.0})
    data = small.demonstrations("cloud")
    policy = policy_class(config.policy.name).build(config, data)
    seen: set[str] = set()
    stages = policy.stages()
    assert len({stage.name for stage in stages}) == len(stages)
    assert all(re.fullmatch("[a-z]+", stage.name) for stage in stages), "else its checkpoints are not found again"
    for number, stage in enumerate(stages):
        fingerprints = policy.frozen() if number else {}
        trained = policy.begin_stage(stage)
        names = {id(parameter): name for name, parameter in policy.named_parameters()}
        assert {name: names[id(parameter)] for name, parameter in trained.items()} == {name: name for name in trained}
        before = {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}
        source = policy.source(stage, data)
        optimizer = torch.optim.AdamW(list(trained.values()), lr=1e-3, weight_decay=0.0)
        for step in range(4):
            fit.step(policy, stage, source, optimizer, step)
        for name, parameter in policy.named_parameters():
            assert torch.equal(parameter, before[name]) == (name not in trained), (stage.name, name)
        assert not number or policy.frozen() == fingerprints
        seen |= set(trained)
    assert seen == {name for name, _ in policy.named_parameters()}, "some stage trains each"
    assert stages[-1].averaged, "who acts has averaged weights"


@every_method
def test_a_loss_depends_on_its_generator_alone(method):
    config = config_of(method, "cloud", **{"augmentation.state_noise": 0.1})
    data = small.demonstrations("cloud")
    policy = fit.fit(config, data)[0]
    stage = policy.stages()[-1]
    policy.begin_stage(stage)
    source, losses = policy.source(stage, data), []
    for seed in (5, 5, 6):
        generator = keyed_generator(seed)
        losses.append(policy.loss(stage, source.draw(8, generator), generator)[0].item())
        torch.rand(3)
    assert losses[0] == losses[1] != losses[2]


@every_method
def test_fresh_weights_follow_from_the_seed_alone(method):
    build = functools.partial(policy_class(config_of(method).policy.name).build, demonstrations=small.demonstrations())
    state = torch.random.get_rng_state()
    one = build(config_of(method)).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator is left alone"
    torch.rand(5)
    again, other = build(config_of(method)).state_dict(), build(config_of(method, seed=1)).state_dict()
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


# --- acting -----------------------------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("observation", ["state", "cloud"])
def test_a_chunk_has_the_shape_and_the_limits_of_the_demonstrations(method, observation):
    policy = trained(method, observation)
    memory, shown = policy.begin([0, 1, 2]), small.demonstrations(observation).arrays["action"].numpy()
    for step in range(7):  # past the horizon of 24
        chunk = policy.plan(small.frames(policy.config, 3, policy.frames, seed=step), memory)
        assert chunk.run == policy.execution_horizon in (1, RUN)
        assert chunk.actions.ndim == 3
        assert chunk.actions.shape[::2] == (3, small.ACTION)
        assert chunk.actions.shape[1] >= chunk.run
        assert chunk.actions.dtype == np.float32
        assert np.isfinite(chunk.actions).all()
        if step < 6:
            assert (chunk.actions >= shown.min(0) - 1e-5).all()
            assert (chunk.actions <= shown.max(0) + 1e-5).all()
        memory.last = chunk.actions[:, chunk.run - 1]


@every_method
@pytest.mark.parametrize("observation", ["state", "cloud"])
def test_a_batch_equals_its_rows_alone_also_with_gaps(method, observation):
    policy = trained(method, observation)
    together = rounds(policy, [0, 1, 2], GAPS)
    for row in range(3):
        np.testing.assert_allclose(rounds(policy, [row], GAPS)[0], together[row], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(rounds(policy, [0, 1, 2], GAPS), together)  # and the same again
    assert together.std() > 0


@every_method
def test_who_is_not_observed_holds_or_goes_on_with_a_plan(method):
    policy = trained(method)
    memory, view = policy.begin([0, 1]), small.frames(policy.config, 2, policy.frames)
    moved = run(policy, memory, view)
    if policy.trace(memory, 0) is not None:
        plan = policy.trace(memory, 0).tokens[0]
        run(policy, memory, view, np.array([False, True]))
        np.testing.assert_array_equal(policy.trace(memory, 0).tokens[1], plan)
        return
    held = run(policy, memory, view, np.array([False, True]))
    if hasattr(memory, "plans"):  # of the whole episode
        np.testing.assert_array_equal(held, memory.plans[:, RUN : 2 * RUN])
        return
    assert (held[0, :, :2] == 0).all(), "the hold command"
    assert (held[0, :, 2] == moved[0, -1, 2]).all(), "where it has none, the last one goes on"
    again = run(policy, memory, view, np.array([False, False]))
    assert (again[0, :, 2] == moved[0, -1, 2]).all(), "for as long as it takes"
    assert (again[1, :, 2] == held[1, -1, 2]).all()


@every_method
def test_holding_before_anything_was_commanded_is_still(method):
    policy = trained(method)
    memory = policy.begin([0, 1])
    np.testing.assert_array_equal(memory.last, np.zeros((2, small.ACTION)))
    np.testing.assert_array_equal(policy.holding(memory), np.zeros((2, small.ACTION)))
    memory.last = np.full((2, small.ACTION), 0.7, np.float32)
    np.testing.assert_array_equal(policy.holding(memory), np.array([[0, 0, 0.7]] * 2, np.float32))


def broken(view: Frames, how: str) -> Frames:
    view = {key: value.copy() for key, value in view.items()}
    if how in ("nan", "inf"):
        view["cloud"][0, 0, 3, 1] = np.nan if how == "nan" else np.inf
    elif how == "no cloud":
        del view["cloud"]
    elif how == "no state":
        del view["state"]
    elif how == "points":
        view["cloud"] = view["cloud"][:, :, :-1]
    elif how == "colours":
        view["cloud"] = view["cloud"].repeat(2, axis=-1)
    elif how == "width":
        view["state"] = view["state"][..., :-1]
    elif how == "text":
        view["state"] = view["state"].astype(str)
    elif how == "frames":
        view = {key: np.repeat(value, 2, axis=1) for key, value in view.items()}
    elif how == "episodes":
        view = {key: np.repeat(value, 2, axis=0) for key, value in view.items()}
    elif how == "flat":
        view["state"] = view["state"][0]
    elif how == "picture":
        view = {"rgb": np.zeros((*view["state"].shape[:2], 16, 16, 3), np.uint8)}
    return view


FRAME = ["nan", "inf", "no cloud", "no state", "points", "colours", "width", "text", "picture"]
WORDS = {
    "nan": "contains NaN or Inf: treat the frame as missing",
    "inf": "contains NaN or Inf: treat the frame as missing",
    "no cloud": "no 'cloud'",
    "no state": "no 'state'",
    "points": r"\(15, 3\), the policy was trained on \(16, 3\)",
    "colours": r"\(16, 6\), the policy was trained on \(16, 3\)",
    "width": r"\(8,\), the policy was trained on \(9,\)",
    "text": "numbers are needed",
    "picture": "has no '",
    "frames": "a column for each frame",
    "episodes": "a row for each episode",
    "flat": "a row for each episode",
}


@every_method
def test_a_bad_observation_is_refused_and_leaves_the_episode_alone(method):
    policy = trained(method, "cloud")
    views = [small.frames(policy.config, 1, policy.frames, seed=seed) for seed in range(3)]
    memory = policy.begin([3])
    undisturbed = [run(policy, memory, view) for view in views]
    memory, again = policy.begin([3]), []
    for view in views:
        for how, words in WORDS.items():
            with pytest.raises(ObservationError, match=words):
                policy.plan(broken(view, how), memory)
        again.append(run(policy, memory, view))
    np.testing.assert_array_equal(np.stack(again), np.stack(undisturbed))
    trace = policy.trace(memory, 0)
    assert trace is None or len(trace.executed) == 3


@every_method
def test_acting_refuses_bad_frames_too_and_goes_on(method):
    policy = trained(method, "cloud")
    view = small.frames(policy.config, 1, 1)
    good, *bad = (
        {key: value[0, 0] for key, value in each.items()} for each in (view, *(broken(view, how) for how in FRAME))
    )
    policy.reset([0])
    expected = [policy.act(good) for _ in range(RUN + 2)]
    policy.reset([0])
    out = []
    for _ in expected:
        for how, frame in zip(FRAME, bad, strict=True):
            with pytest.raises(ObservationError, match=WORDS[how]):
                policy.act(frame)
        out.append(policy.act(good))
    np.testing.assert_array_equal(out, expected)


@every_method
def test_frames_of_rows_that_are_not_observed_are_not_looked_at(method):
    policy = trained(method, "cloud")
    memory, view = policy.begin([0, 1]), small.frames(policy.config, 2, policy.frames)
    run(policy, memory, view)
    view["state"][1], view["cloud"][1] = np.nan, np.inf
    assert np.isfinite(run(policy, memory, view, np.array([True, False]))).all()
    with pytest.raises(ObservationError, match="observed has shape"):
        policy.plan(view, memory, np.array([True]))


@every_method
def test_more_than_the_policy_looks_at_is_left_aside(method):
    policy = trained(method)
    view = small.frames(policy.config, 1, policy.frames)
    more = {**view, "rgb_wrist": np.zeros((1, policy.frames, 8, 8, 3), np.uint8), "instruction": ["lift it"]}
    for one in (view, more):
        one["actions"] = run(policy, policy.begin([0]), one)
    np.testing.assert_array_equal(more["actions"], view["actions"])


@every_method
def test_sampling_otherwise_shares_the_weights_and_leaves_the_original_alone(method):
    policy = trained(method)
    before = rounds(policy, [0, 1, 2], ALL)
    policy.reset([0])
    own = policy.execution_horizon
    other = policy.with_sampling(execution_horizon=2 * RUN if own > 1 else 1)
    assert not hasattr(other, "driver"), "whose episode belongs to the original"
    mine, theirs = dict(policy.named_parameters()), dict(other.named_parameters())
    assert all(mine[name] is theirs[name] for name in mine)
    assert (policy.execution_horizon, policy.sampling.execution_horizon) == (own, own)
    assert other.execution_horizon == other.sampling.execution_horizon
    assert own == 1 or other.execution_horizon != own
    assert rounds(other, [0, 1, 2], ALL).shape[2] == other.execution_horizon
    np.testing.assert_array_equal(rounds(policy, [0, 1, 2], ALL), before)
    with pytest.raises(UnknownNameError, match="Did you mean 'execution_horizon'"):
        policy.with_sampling(execution_horizn=2)
    with pytest.raises(ConfigError, match="execution_horizon = 0: must be above 0"):
        policy.with_sampling(execution_horizon=0)


@every_method
@pytest.mark.parametrize("observation", ["state", "cloud"])
def test_a_saved_policy_acts_bit_equal(method, observation, tmp_path):
    policy = trained(method, observation)
    policy = policy.with_sampling(execution_horizon=policy.execution_horizon)
    save_policy(policy, tmp_path / "policy")
    loaded = load_checkpoint(tmp_path / "policy")
    assert not loaded.training
    assert (loaded.config, loaded.spec, loaded.label) == (policy.config, policy.spec, policy.label)
    assert loaded.frozen() == policy.frozen()
    np.testing.assert_array_equal(rounds(loaded, [0, 1, 2], GAPS), rounds(policy, [0, 1, 2], GAPS))


# --- what there is to look at -----------------------------------------------------------------------------------------

PIXELS = 24
TEXTS = ("lift it", "push it", "lift it", "turn it over", "push it")
LOOKS = ["state", "cloud alone", "coloured cloud", "rgb", "rgb alone", "two cameras", "depth", "instruction"]
# No policy knows what is seen, but two read the condition key by key or in stages: they and the plainest look at each
# kind, the others at everything and at the least there can be.
CURIOUS = ("bc", "mgp-long", "resnet-t")
SEEING = [
    pytest.param(method, kind, marks=pytest.mark.xdist_group(method))
    for method in small.METHODS
    for kind in (*(LOOKS if method in CURIOUS else ["rgb alone"]), "everything")
]


def seen(kind: str) -> Demonstrations:
    """The synthetic demonstrations, looked at otherwise."""
    data = small.demonstrations("cloud")
    arrays, count = dict(data.arrays), len(data.arrays["action"])
    cloud, state = arrays.pop("cloud"), arrays["state"]
    bright = 128 + 300 * state[:, :1, None, None]  # what is to be seen tells what is to be done
    picture = bright + 20 * torch.randn(count, PIXELS, PIXELS, 3, generator=keyed_generator(0))
    picture = picture.clamp(0, 255).to(torch.uint8)
    if kind in ("cloud alone", "rgb alone"):
        del arrays["state"]
    if kind == "cloud alone":
        arrays["cloud"] = cloud
    if kind in ("coloured cloud", "everything"):
        arrays["cloud"] = torch.cat([cloud, torch.rand(cloud.shape, generator=keyed_generator(1))], -1)
    if kind in ("rgb", "rgb alone"):
        arrays["rgb"] = picture
    if kind in ("two cameras", "everything"):
        arrays |= {"rgb_wrist": picture, "rgb_front": picture.flip(1)}
    if kind in ("depth", "everything"):
        arrays["depth"] = 1 + picture[..., 0] / 255
    texts = TEXTS if kind in ("instruction", "everything") else ()
    return dataclasses.replace(data, arrays=arrays, instructions=texts)


def at(data: Demonstrations, time: int) -> Frames:
    """What a sensor gives at a flat time."""
    frame: Frames = {key: array[time].numpy() for key, array in data.arrays.items() if key != "action"}
    if data.instructions:
        frame["instruction"] = data.instructions[int(data.episode_of(torch.tensor(time)))]
    return frame


@pytest.mark.parametrize(("method", "kind"), SEEING)
def test_whatever_there_is_to_see_is_trained_on_saved_and_acted_on(method, kind, tmp_path):
    data = seen(kind)
    steps = {"training.steps": 2, "training.batch": 4}
    policy, losses = fit.fit(config_of(method, **steps, **{"encoder.frame": "world"}), data)
    assert all(np.isfinite(one).all() for one in losses.values())  # a loss for each stage, whatever they are called
    assert policy.observation_shapes == {
        key: tuple(one.shape[1:]) for key, one in data.arrays.items() if key != "action"
    }
    assert len(policy.encoder.encoders) == len(policy.observation_shapes) + bool(data.instructions)
    save_policy(policy, tmp_path / "policy")
    actions = []
    for one in (policy, load_checkpoint(tmp_path / "policy")):
        one.reset([0])
        actions.append([one.act(at(data, time)) for time in range(RUN + 2)])
    assert np.isfinite(actions).all()
    np.testing.assert_array_equal(*actions)


@pytest.mark.parametrize(("method", "kind"), SEEING)
def test_everything_there_is_to_see_counts(method, kind):
    """Each key of an observation changes the condition, and rows keep theirs in a batch."""
    data = seen(kind)
    config = config_of(method, **{"encoder.frame": "world"})
    policy = policy_class(config.policy.name).build(config, data).eval()
    frames = [at(data, time) for time in (3, 30, 60)]

    @torch.inference_mode()
    def condition(rows: list[Frames]) -> torch.Tensor:
        view = {key: np.stack([[row[key]] * policy.frames for row in rows]) for key in policy.observation_shapes}
        if data.instructions:
            view["instruction"] = [row["instruction"] for row in rows]
        looks, _ = policy.look(view, policy.begin(range(len(rows))), None)
        return policy.condition(looks)

    together = condition(frames)
    for row in range(3):
        torch.testing.assert_close(condition([frames[row]])[0], together[row], rtol=1e-4, atol=1e-5)
    for key in frames[0]:
        changed = condition([{**frames[0], key: frames[1][key]}])
        assert not torch.allclose(changed[0], together[0], atol=1e-4), key


def test_a_picture_of_bytes_comes_as_bytes():
    """Taken for bytes, numbers from -1 to 1 would be a black picture."""
    data = seen("rgb")
    policy = fit.fit(config_of("bc", **{"encoder.frame": "world"}), data)[0]
    frame = at(data, 3)
    assert frame["rgb"].dtype == np.uint8
    policy.reset([0])
    assert np.isfinite(policy.act(frame)).all()
    with pytest.raises(ObservationError, match="'rgb' has dtype float32, the policy was trained on bytes"):
        policy.act({**frame, "rgb": frame["rgb"].astype(np.float32) / 127.5 - 1})


@every_method
def test_an_instruction_must_be_one_of_those_learned(method):
    data = seen("instruction")
    policy = policy_class(config_of(method).policy.name).build(config_of(method), data).eval()
    assert policy.spec.instructions == ("lift it", "push it", "turn it over")
    frame = at(data, 0)
    policy.act(frame)
    policy.reset([0])
    with pytest.raises(UnknownNameError, match=r"unknown instruction 'push it!'\. Did you mean 'push it'"):
        policy.act({**frame, "instruction": "push it!"})
    del frame["instruction"]
    policy.reset([0])
    with pytest.raises(ObservationError, match=r"observation has no 'instruction', one of .*'turn it over'"):
        policy.act(frame)


@every_method
@pytest.mark.parametrize("kind", ["cloud alone", "rgb alone"])
def test_a_frame_about_the_hand_needs_a_state(method, kind):
    config = config_of(method, **{"encoder.frame": "hand"})
    with pytest.raises(ConfigError, match=r"needs the robot's state, .*choose encoder\.frame = 'world'"):
        policy_class(config.policy.name).build(config, seen(kind))


@every_method
def test_demonstrations_are_turned_about_the_hand_alone(method):
    config = config_of(method, "cloud", **{"augmentation.rotation": 10.0})
    build, data = policy_class(config.policy.name).build, small.demonstrations("cloud")
    build(config, data)
    with pytest.raises(ConfigError, match=r"but encoder\.frame = 'world' and the actions are 'displacement'"):
        build(config.changed({"encoder.frame": "world"}), data)
    with pytest.raises(ConfigError, match=r"the actions are 'absolute': choose encoder\.frame = 'hand'"):
        build(config, data.saying(actions="absolute"))


def test_a_spec_survives_json_and_tells_what_it_does_not_know():
    data = seen("instruction")
    spec = DataSpec.of(data.saying(options={"points": 16}))
    assert DataSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    np.testing.assert_array_equal(spec.hold_command, np.array([0, 0, np.nan], np.float32))
    assert DataSpec.of(data.saying(hold_action=None)).hold == (None,) * 3
    assert DataSpec.of(data.saying(horizon=None)).horizon == 24
    with pytest.raises(DataError, match=r"actions = None of themselves, known are displacement, absolute"):
        DataSpec.of(data.saying(actions=None))
    with pytest.raises(DataError, match="hold_action has 2 numbers, an action 3"):
        DataSpec.of(data.saying(hold_action=[0.0, None]))
