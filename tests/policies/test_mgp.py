from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.config import SamplingConfig
from mgp.errors import CheckpointError, ConfigError, MGPError, ObservationError, UnknownNameError
from mgp.policies.mgp import MGP

KINDS = [(policy, observation) for policy in ("short", "long") for observation in ("state", "cloud")]


def rounds(policy: MGP, count: int, rows: list[int] | None = None, arrivals: np.ndarray | None = None) -> np.ndarray:
    """Plans of several episodes over several rounds, (B, count, execution_horizon, A); episode = seed = row."""
    rows = [0, 1, 2] if rows is None else rows
    policy.reset(rows)
    out = []
    for step in range(count):
        view = small.frames(policy.config, 3, policy.history, seed=step)
        observed = None if arrivals is None else arrivals[step][rows]
        out.append(policy.plan({key: value[rows] for key, value in view.items()}, observed))
    return np.stack(out, axis=1)


def say(policy: MGP, tokens: list[int] | torch.Tensor, share: float = 20.0) -> None:
    """Make the network want these tokens (N,) or (B, N), whatever it sees."""
    wanted = torch.as_tensor(tokens)

    def forward(seen: torch.Tensor, condition: torch.Tensor, executed: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*seen.shape, policy.network.transformer.vocabulary.predicted)
        return logits.scatter(-1, wanted.expand_as(seen)[..., None], share)

    policy.network.transformer.forward = forward  # type: ignore[method-assign]


def decoded(policy: MGP, tokens: list[int]) -> np.ndarray:
    return policy.network.actions(torch.tensor([tokens]))[0].numpy()  # (T, A)


@pytest.mark.parametrize(("kind", "observation"), KINDS)
def test_a_plan_has_the_shape_and_the_units_of_the_demonstrations(kind, observation):
    policy = small.policy(small.tiny(kind, observation))
    actions = rounds(policy, 8)  # past the horizon of 24 with 4 actions a round
    assert actions.shape == (3, 8, 4, small.ACTION)
    assert actions.dtype == np.float32
    assert np.isfinite(actions).all()
    shown = small.demonstrations(observation).arrays["action"].numpy()
    assert (actions[:, :6] >= shown.min(0) - 1e-5).all()
    assert (actions[:, :6] <= shown.max(0) + 1e-5).all()
    assert actions[:, :6].std() > 0


def test_short_runs_the_actions_from_now_on_not_those_of_the_past():
    config = small.tiny("short", **{"encoder.history": 4, "sampling.execution_horizon": 5})
    policy = small.policy(config)
    say(policy, [3, 9])
    actions = policy.plan(small.frames(config, 1, 4))
    np.testing.assert_allclose(actions[0], decoded(policy, [3, 9])[3:8], atol=1e-6)


def test_a_stride_looks_at_every_second_frame():
    config = small.tiny("short", **{"encoder.history": 2, "encoder.stride": 3})
    policy = small.policy(config)
    assert policy.history == 4
    assert policy.config.past == 3
    view = small.frames(config, 1, 4)
    first = policy.plan(view)
    view["state"][:, [1, 2]] += 5.0  # not looked at
    policy.reset([0])
    np.testing.assert_array_equal(policy.plan(view), first)
    seen = []
    encode = policy.network.condition
    policy.network.condition = lambda state, *rest: seen.append(state) or encode(state, *rest)
    policy.plan(view)
    np.testing.assert_array_equal(seen[0], view["state"][:, [0, 3]])


def test_long_runs_through_its_plan_and_then_holds():
    config = small.tiny("long", **{"sampling.execution_horizon": 8})
    policy = small.policy(config)
    plan = [1, 2, 3, 4, 5, 6]
    say(policy, plan)
    view, whole = small.frames(config, 1, 2), decoded(policy, plan)
    for start in (0, 8, 16):
        np.testing.assert_allclose(policy.plan(view)[0], whole[start : start + 8], atol=1e-6)
    rest = policy.plan(view)[0]
    np.testing.assert_array_equal(rest[:, :2], 0)
    np.testing.assert_allclose(rest[:, 2], whole[-1, 2], atol=1e-6)  # the gripper keeps its last command


@pytest.mark.parametrize("end", range(6))
def test_end_and_what_follows_are_never_decoded_and_hold(end):
    config = small.tiny("long", **{"sampling.execution_horizon": 8, "sampling.allow_end": True})
    policy = small.policy(config)
    words = policy.network.transformer.vocabulary
    tokens = [5, 6, 7, 8, 9, 10]
    tokens[end] = words.end
    say(policy, tokens)
    view = small.frames(config, 1, 2)
    actions = np.concatenate([policy.plan(view)[0] for _ in range(4)])
    assert np.isfinite(actions).all()
    moving, gripper = end * 4, 0.0
    if end:
        meant = decoded(policy, tokens[:end] + [tokens[end - 1]] * (6 - end))  # the last code stands in for the rest
        np.testing.assert_allclose(actions[:moving], meant[:moving], rtol=1e-5, atol=1e-6)
        gripper = meant[moving - 1, 2]
    np.testing.assert_array_equal(actions[moving:, :2], 0)
    np.testing.assert_allclose(actions[moving:, 2], gripper, atol=1e-6)


def test_end_alone_padding_and_rows_apart():
    config = small.tiny("long", **{"sampling.allow_end": True, "sampling.variant": "full"})
    policy = small.policy(config)
    words = policy.network.transformer.vocabulary
    say(policy, torch.tensor([[words.end] * 6, [1, words.end, 1, words.end, 1, 1], [1, 2, 3, 4, 5, 6]]))
    policy.reset([0, 1, 2])
    view = small.frames(config, 3, 2)
    first, second = policy.plan(view), policy.plan(view)
    assert (first[0] == 0).all()
    assert (second[0] == 0).all()
    assert (second[1, :, :2] == 0).all(), "codes behind [END] are not executed"
    assert np.abs(second[2, :, :2]).max() > 0
    for word in (words.pad, words.mask):  # no network says so; if one stood there all the same, it would not be decoded
        policy._planner.tokens = policy._planner.tokens.clone().index_fill(1, torch.tensor([3, 4, 5]), word)
        held = policy.plan(view)
        assert np.isfinite(held).all()
    assert (held[2, :, :2] == 0).all()


def test_end_is_ignored_unless_it_is_allowed():
    policy = small.policy(small.tiny("long"))
    say(policy, [policy.network.transformer.vocabulary.end] * 6)
    policy.plan(small.frames(policy.config, 1, 2))
    assert (policy.trace(0).tokens < 16).all()


@pytest.mark.parametrize(("kind", "observation"), KINDS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_equals_its_episodes_alone(kind, observation, temperature):
    policy = small.policy(small.tiny(kind, observation, **{"sampling.temperature": temperature}))
    arrivals = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 1, 1]], bool)
    together = rounds(policy, 5, arrivals=arrivals)
    for row in range(3):
        np.testing.assert_allclose(rounds(policy, 5, [row], arrivals)[0], together[row], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rounds(policy, 5, arrivals=arrivals), together)  # and the same again


def test_an_episodes_randomness_depends_on_its_seed():
    policy = small.policy(small.tiny("long", **{"sampling.temperature": 1.0}))
    view = {key: np.repeat(value, 3, axis=0) for key, value in small.frames(policy.config, 1, 2).items()}
    policy.reset([5, 6, 5])
    actions = policy.plan(view)
    np.testing.assert_array_equal(actions[0], actions[2])
    assert not np.array_equal(actions[0], actions[1])


@pytest.mark.parametrize(("kind", "observation"), KINDS)
def test_acting_frame_by_frame_equals_planning_chunk_by_chunk(kind, observation):
    config = small.tiny(kind, observation, **{"encoder.history": 3, "encoder.stride": 2, "tokenizer.window": 16})
    policy = small.policy(config)
    stream = {key: value[0] for key, value in small.frames(config, 1, 20).items()}
    policy.reset([4])
    chunks = []
    for now in range(0, 20, 4):
        back = np.clip(np.arange(now - policy.history + 1, now + 1), 0, None)
        chunks.append(policy.plan({key: value[back][None] for key, value in stream.items()})[0])
    policy.reset([4])
    buffer = {key: value[0].copy() for key, value in stream.items()}
    acted = []
    for now in range(20):
        for key, value in stream.items():
            buffer[key][:] = value[now]  # a robot that reuses its arrays
        acted.append(policy.act(buffer))
    np.testing.assert_array_equal(np.stack(acted), np.concatenate(chunks))


def test_acting_without_an_observation():
    policy = small.policy(small.tiny("long"))
    with pytest.raises(ObservationError, match="first observation"):
        policy.act(None)
    frame = {key: value[0, 0] for key, value in small.frames(policy.config, 1, 1).items()}
    policy.act(frame)
    for _ in range(10):
        assert np.isfinite(policy.act(None)).all()
    assert (policy.trace(0).masked[1:] == 0).all()
    assert len(policy.trace(0).executed) == 3


def broken(view: dict[str, np.ndarray], how: str) -> dict[str, np.ndarray]:
    view = {key: value.copy() for key, value in view.items()}
    if how in ("nan", "inf"):
        view["cloud"][0, 0, 3, 1] = np.nan if how == "nan" else np.inf
    elif how == "missing":
        del view["cloud"]
    elif how == "points":
        view["cloud"] = view["cloud"][:, :, :-1]
    elif how == "width":
        view["state"] = view["state"][..., :-1]
    elif how == "text":
        view["state"] = view["state"].astype(str)
    elif how == "frames":
        view = {key: value[:, :1] for key, value in view.items()}
    elif how == "episodes":
        view = {key: np.repeat(value, 2, axis=0) for key, value in view.items()}
    elif how == "flat":
        view["state"] = view["state"][0]
    return view


@pytest.mark.parametrize("kind", ["short", "long"])
@pytest.mark.parametrize("how", ["nan", "inf", "missing", "points", "width", "text", "frames", "episodes", "flat"])
def test_a_bad_observation_is_refused_and_leaves_the_plan_alone(kind, how):
    policy = small.policy(small.tiny(kind, "cloud", **{"sampling.temperature": 1.0}))
    views = [small.frames(policy.config, 1, 2, seed=seed) for seed in range(3)]
    policy.reset([3])
    undisturbed = [policy.plan(view) for view in views]
    policy.reset([3])
    again = [policy.plan(views[0])]
    with pytest.raises(ObservationError):
        policy.plan(broken(views[1], how))
    again += [policy.plan(view) for view in views[1:]]
    np.testing.assert_array_equal(np.stack(again), np.stack(undisturbed))
    if kind == "long":
        assert len(policy.trace(0).executed) == 3


@pytest.mark.parametrize("how", ["nan", "inf", "missing", "points", "width", "text"])
def test_acting_refuses_bad_frames_too_and_goes_on(how):
    policy = small.policy(small.tiny("long", "cloud"))
    view = small.frames(policy.config, 1, 1)
    good, bad = ({k: v[0, 0] for k, v in each.items()} for each in (view, broken(view, how)))
    policy.act(good)
    with pytest.raises(ObservationError):
        policy.act(bad)
    assert np.isfinite(policy.act(good)).all()


def test_what_is_not_observed_is_not_looked_at():
    policy = small.policy(small.tiny("long", "cloud"))
    policy.reset([0, 1])
    view = small.frames(policy.config, 2, 2)
    policy.plan(view)
    view["state"][1], view["cloud"][1] = np.nan, np.nan
    assert np.isfinite(policy.plan(view, np.array([True, False]))).all()
    with pytest.raises(ObservationError, match="observed has shape"):
        policy.plan(view, np.array([True]))


def test_short_holds_without_an_observation_and_the_gripper_goes_on():
    policy = small.policy(small.tiny("short"))
    policy.reset([0, 1])
    view = small.frames(policy.config, 2, 2)
    held = policy.plan(view, np.array([False, True]))
    assert (held[0] == 0).all(), "nothing was commanded before"
    moved = policy.plan(view)
    held = policy.plan(view, np.array([False, True]))
    assert (held[0, :, :2] == 0).all()
    assert (held[0, :, 2] == moved[0, -1, 2]).all()
    np.testing.assert_allclose(held[1], moved[1], atol=1e-6)
    both = policy.plan(view, np.array([False, False]))
    assert (both[0, :, 2] == moved[0, -1, 2]).all(), "holding on does not forget the command"


def test_long_goes_on_with_its_plan_without_an_observation():
    policy = small.policy(small.tiny("long", **{"sampling.mask_ratio": 1.0}))
    say(policy, [1, 2, 3, 4, 5, 6])
    policy.reset([0, 1])
    view = small.frames(policy.config, 2, 2)
    policy.plan(view)
    say(policy, [9, 9, 9, 9, 9, 9])
    actions = policy.plan(view, np.array([False, True]))
    np.testing.assert_allclose(actions[0], decoded(policy, [1, 2, 3, 4, 5, 6])[4:8], atol=1e-6)
    np.testing.assert_allclose(actions[1], decoded(policy, [1, 9, 9, 9, 9, 9])[4:8], atol=1e-6)
    assert (policy.trace(0).masked[1] == 0).all()
    assert (policy.trace(1).masked[1, 1:] > 0).all()


def test_the_trace_of_an_episode():
    policy = small.policy(small.tiny("long"))
    assert policy.trace(0) is None
    rounds(policy, 4)
    trace = policy.trace(1)
    assert trace.executed.tolist() == [0, 1, 2, 3]
    assert trace.tokens.shape == trace.confidence.shape == trace.masked.shape == (4, 6)
    for step in range(1, 4):
        np.testing.assert_array_equal(trace.tokens[step, :step], trace.tokens[-1, :step])
        assert (trace.masked[step, :step] == 0).all()
    assert small.policy(small.tiny("short")).trace(0) is None


@pytest.mark.parametrize(("kind", "observation"), KINDS)
def test_a_saved_policy_acts_bit_equal(kind, observation, tmp_path):
    policy = small.policy(small.tiny(kind, observation, **{"sampling.temperature": 0.5}))
    policy.save(tmp_path / "policy")
    loaded = MGP.load(tmp_path / "policy")
    assert loaded.config == policy.config
    assert loaded.observation_shapes == policy.observation_shapes
    np.testing.assert_array_equal(loaded.hold, policy.hold)
    np.testing.assert_array_equal(rounds(loaded, 3), rounds(policy, 3))
    policy.save(tmp_path / "policy")  # over the old one
    np.testing.assert_array_equal(rounds(MGP.load(tmp_path / "policy"), 3), rounds(policy, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


@pytest.mark.parametrize("auxiliary", [0.0, 1.0])
def test_other_sampling_shares_the_weights_and_is_saved(auxiliary, tmp_path):
    policy = small.policy(small.tiny("long", **{"training.auxiliary": auxiliary}))
    other = policy.with_sampling(variant="full", temperature=2.0, execution_horizon=8)
    assert other.network is policy.network
    assert (policy.config.sampling.variant, policy.execution_horizon) == ("long", 4)
    assert (other.config.sampling.variant, other.execution_horizon) == ("full", 8)
    before = rounds(policy, 2)
    warm = rounds(other, 2)
    assert warm.shape == (3, 2, 8, small.ACTION)
    np.testing.assert_array_equal(rounds(policy, 2), before)
    other.save(tmp_path / "policy")
    np.testing.assert_array_equal(rounds(MGP.load(tmp_path / "policy"), 2), warm)
    greedy = MGP.load(tmp_path / "policy", sampling=SamplingConfig(execution_horizon=4))
    np.testing.assert_array_equal(rounds(greedy, 2), before)


def test_sampling_options_are_checked():
    policy = small.policy(small.tiny("long"))
    with pytest.raises(UnknownNameError, match="Did you mean 'temperature'"):
        policy.with_sampling(temprature=1.0)
    with pytest.raises(UnknownNameError, match="Did you mean 'full'"):
        policy.with_sampling(variant="ful")
    with pytest.raises(ConfigError, match="no multiple of actions_per_token"):
        policy.with_sampling(execution_horizon=5)


@pytest.mark.parametrize("file", ["policy.safetensors", "config.json", "meta.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_folder_is_refused(file, damage, tmp_path):
    folder = tmp_path / "policy"
    small.policy(small.tiny()).save(folder)
    content = (folder / file).read_bytes()
    if damage == "remove":
        (folder / file).unlink()
    elif damage == "truncate":
        (folder / file).write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        (folder / file).write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(CheckpointError):
        MGP.load(folder)


def test_every_byte_of_the_description_counts(tmp_path):
    folder = tmp_path / "policy"
    small.policy(small.tiny()).save(folder)
    content = (folder / "meta.json").read_bytes()
    for place in range(0, len(content), 7):
        if content[place : place + 1].isspace():
            continue
        (folder / "meta.json").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        if b'"seal"' not in (folder / "meta.json").read_bytes():
            continue  # it then counts as one of the folders written before there was a seal
        with pytest.raises(CheckpointError):
            MGP.load(folder)


def test_another_tokenizer_or_another_format_is_refused(tmp_path):
    from mgp.files import seal, unseal

    folder = tmp_path / "policy"
    small.policy(small.tiny()).save(folder)
    meta = unseal(folder, 1)
    (folder / "meta.json").unlink()
    del meta["sha256"]
    seal(folder, {**meta, "tokenizer": "0" * 64})
    with pytest.raises(CheckpointError, match="tokenizer is not the one"):
        MGP.load(folder)
    (folder / "meta.json").unlink()
    seal(folder, {**meta, "format": 99})
    with pytest.raises(CheckpointError, match="has format 99, this version reads 1"):
        MGP.load(folder)
    with pytest.raises(MGPError, match="is no checkpoint"):
        MGP.load(tmp_path / "nothing")


@pytest.mark.parametrize("observation", ["state", "cloud"])
def test_the_first_frame_is_remembered_until_reset(observation):
    """The condition of a later look holds the first frame with `encoder.first`, and does not without."""

    @torch.inference_mode()
    def last(policy: MGP, begin: int) -> np.ndarray:
        policy.reset([0])
        views = [small.frames(policy.config, 1, policy.history, seed=seed) for seed in (begin, 7)]
        conditions = [policy._look(view, None)[0] for view in views]
        return conditions[-1].numpy()

    options = {"encoder.history": 2}
    with_first = small.policy(small.tiny("long", observation, **options, **{"encoder.first": True}))
    assert last(with_first, 1).shape[1] == 3
    assert not np.array_equal(last(with_first, 1)[:, 0], last(with_first, 2)[:, 0])
    np.testing.assert_array_equal(last(with_first, 1)[:, 1:], last(with_first, 2)[:, 1:])
    without = small.policy(small.tiny("long", observation, **options))
    np.testing.assert_array_equal(last(without, 1), last(without, 2))


def test_the_first_frame_of_each_episode_goes_with_its_row():
    """Where only some episodes are observed, a batch still equals its rows run alone."""
    policy = small.policy(small.tiny("long", **{"encoder.first": True, "encoder.history": 2}))
    arrivals = np.array([[True, True, True], [False, True, True], [True, False, True]])
    together = rounds(policy, 3, arrivals=arrivals)
    for row in range(3):
        np.testing.assert_allclose(rounds(policy, 3, [row], arrivals)[0], together[row], atol=1e-6)
    policy.reset([0, 1])
    with pytest.raises(ObservationError, match="first observation"):
        policy.plan(small.frames(policy.config, 2, policy.history), np.array([True, False]))


def test_short_has_no_first_frame():
    with pytest.raises(ConfigError, match=r"encoder\.first"):
        small.tiny("short", **{"encoder.first": True})
