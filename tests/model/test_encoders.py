"""Encoders of observations: the registry, and what each kind does with its frames."""

from __future__ import annotations

import pytest
import torch

import small
from mgp.config import AugmentationConfig, EncoderConfig
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.spec import DataSpec
from mgp.data.windows import Looks
from mgp.errors import ConfigError, UnknownNameError
from mgp.model.encoders import ENCODERS, build_encoder, kind_of
from mgp.model.encoders.cloud import PointNet
from mgp.model.encoders.image import ImageEncoder
from mgp.model.encoders.instruction import BUCKETS, bag_of_words
from mgp.model.observation import ObservationEncoder, fit_normalizer, relative, state_width

CONFIG = EncoderConfig(hidden=(8, 16), dim=6, frame="world")
SHAPES = {"state": (9,), "cloud": (7, 3), "rgb": (24, 32, 3), "depth": (24, 32), "instruction": (BUCKETS,)}


def spec(shapes: dict[str, tuple[int, ...]], instructions: tuple[str, ...] = ()) -> DataSpec:
    return DataSpec(shapes, small.ACTION, small.HORIZON, "displacement", (None,) * small.ACTION, instructions)


def drawn(shape: tuple[int, ...], count: int = 5, seed: int = 0) -> torch.Tensor:
    """Frames (count, *shape), as the sensor gives them."""
    if len(shape) == 3:
        return torch.randint(256, (count, *shape), generator=keyed_generator(seed)).to(torch.uint8)
    return torch.rand(count, *shape, generator=keyed_generator(seed))


@pytest.mark.parametrize("kind", ENCODERS)
@torch.no_grad()
def test_every_kind_maps_each_frame_to_its_feature(kind):
    """A kind registered later is covered as soon as `SHAPES` says what it looks like."""
    torch.manual_seed(0)
    encoder, frames = build_encoder(kind, CONFIG, SHAPES[kind]), drawn(SHAPES[kind])
    out = encoder(frames)
    assert out.shape == (5, CONFIG.dim)
    assert out.dtype == torch.float32
    assert out.isfinite().all()
    for row in range(5):  # whatever the others show
        torch.testing.assert_close(encoder(frames[row : row + 1])[0], out[row], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(out[0], out[1], atol=1e-4)


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_parameter_of_an_encoder_is_used(kind):
    torch.manual_seed(0)
    encoder = build_encoder(kind, CONFIG, SHAPES[kind])
    (encoder(drawn(SHAPES[kind])) * torch.randn(5, CONFIG.dim)).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_the_kind_of_a_key_is_its_name_up_to_the_first_underscore():
    assert [kind_of(key) for key in ("state", "rgb", "rgb_wrist", "rgb_wrist_left", "depth_front")] == [
        "state", "rgb", "rgb", "rgb", "depth",
    ]  # fmt: skip


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown kind of observation 'clod'\. Did you mean 'cloud'"):
        kind_of("clod")
    with pytest.raises(UnknownNameError, match=r"'force_wrist'.*Valid: cloud, depth, instruction, rgb, state"):
        build_encoder("force_wrist", CONFIG, (6,))
    with pytest.raises(UnknownNameError, match="kind of observation 'touch'"):
        ObservationEncoder(CONFIG, spec({"state": (9,), "touch": (2,)}))


@torch.no_grad()
def test_a_cloud_has_no_order_and_repeats_do_not_count():
    torch.manual_seed(0)
    for zoom in ((), (4.0, 16.0)):
        net, cloud = PointNet((8, 16), 4, zoom), torch.randn(3, 20, 3)
        base = net(cloud)
        assert base.shape == (3, 4)
        torch.testing.assert_close(net(cloud[:, torch.randperm(20)]), base)
        torch.testing.assert_close(net(torch.cat([cloud, cloud[:, :5]], dim=1)), base)


@torch.no_grad()
def test_an_image_of_bytes_is_that_image_from_minus_one_to_one():
    torch.manual_seed(0)
    encoder, image = ImageEncoder(3, 6), drawn((24, 32, 3))
    torch.testing.assert_close(encoder(image), encoder(image.float() / 127.5 - 1))
    limits = torch.stack([torch.zeros(24, 32, 3), torch.full((24, 32, 3), 255.0)]).to(torch.uint8)
    torch.testing.assert_close(encoder(limits), encoder(torch.stack([-torch.ones(24, 32, 3), torch.ones(24, 32, 3)])))
    other = image.clone()
    other[0, :12] = 255 - other[0, :12]
    assert not torch.allclose(encoder(other)[0], encoder(image)[0], atol=1e-3)


@torch.no_grad()
def test_an_image_tells_where_things_are():
    """A bright patch and the same patch elsewhere have different features, in colour and in depth."""
    torch.manual_seed(0)
    for channels in (3, 1):
        image = torch.zeros(2, 64, 64, channels, dtype=torch.uint8)
        image[0, 4:20, 4:20] = image[1, 40:56, 40:56] = 255
        one, two = ImageEncoder(channels, 6)(image if channels == 3 else image[..., 0].float())
        assert not torch.allclose(one, two, atol=1e-2)


def test_words_give_the_same_row_on_every_machine():
    texts = ("press the red button", "Press  the RED button", "press the green button", "")
    rows = bag_of_words(texts)
    assert rows.shape == (4, BUCKETS)
    assert torch.equal(rows[0], rows[1]), "case and spaces do not count"
    assert not torch.equal(rows[0], rows[2])
    torch.testing.assert_close(rows[:3].norm(dim=1), torch.ones(3))
    assert (rows[3] == 0).all()
    assert (rows[0] > 0).sum() == 7, "four words and three pairs"
    assert not torch.equal(*bag_of_words(("the red on the left", "the left on the red"))), "pairs tell the order"
    assert rows[0].nonzero().flatten().tolist() == [104, 143, 195, 388, 433, 441, 446]


def everything() -> tuple[DataSpec, Looks]:
    """Two windows of two frames with a state, a cloud, two cameras, a depth image and an instruction."""
    shapes = {"rgb_wrist": (16, 16, 3), "state": (9,), "depth": (16, 16), "cloud": (7, 6), "rgb_front": (16, 16, 3)}
    frames = {key: drawn(shape, 3, seed) for seed, (key, shape) in enumerate(shapes.items()) if key != "state"}
    state = torch.randn(2, 2, 9, generator=keyed_generator(9))
    looks = Looks(state, frames, torch.tensor([[0, 1], [1, 2]]), torch.randn(3, 3), torch.tensor([1, 0]))
    return spec(shapes, ("lift", "push")), looks


@torch.no_grad()
def test_the_condition_joins_what_there_is_for_each_frame():
    torch.manual_seed(0)
    known, looks = everything()
    encoder = ObservationEncoder(CONFIG, known)
    data = small.demonstrations("cloud")
    data.arrays["cloud"] = data.arrays["cloud"].repeat(1, 1, 2)
    normalizer = fit_normalizer(CONFIG, AugmentationConfig(), data)
    assert list(encoder.encoders) == ["state", "cloud", "rgb_wrist", "rgb_front", "depth", "instruction"]
    assert encoder.dim == 6 * CONFIG.dim
    out = encoder(looks, normalizer)
    assert out.shape == (2, 2, encoder.dim)
    parts = dict(zip(encoder.encoders, out.split(CONFIG.dim, -1), strict=True))
    for key in ("cloud", "rgb_wrist", "rgb_front", "depth"):  # frame 1 is in both windows
        assert torch.equal(parts[key][0, 1], parts[key][1, 0]), key
        assert not torch.allclose(parts[key][0, 0], parts[key][0, 1], atol=1e-4), key
    assert torch.equal(parts["instruction"][:, 0], parts["instruction"][:, 1]), "it stands in every frame"
    assert not torch.allclose(parts["instruction"][0], parts["instruction"][1], atol=1e-4)
    noisy = encoder(looks, normalizer, encoder.noise(looks, 0.5, keyed_generator(0)))
    changed = [
        key
        for key, a, b in zip(encoder.encoders, out.split(6, -1), noisy.split(6, -1), strict=True)
        if not torch.equal(a, b)
    ]
    assert changed == ["state"]
    assert encoder.noise(looks, 0.0, keyed_generator(0)) is None


def test_the_words_of_the_instructions_are_no_weights():
    known, _ = everything()
    encoder = ObservationEncoder(CONFIG, known)
    assert "words" not in encoder.state_dict()
    assert torch.equal(encoder.words, bag_of_words(("lift", "push")))


@pytest.mark.parametrize(
    ("frame", "shapes", "message"),
    [
        ("hand", {"cloud": (7, 3)}, "needs the robot's state, the data have .'cloud'.: choose encoder.frame = 'world'"),
        ("motion", {"rgb": (16, 16, 3)}, "encoder.frame = 'motion' needs the robot's state"),
        ("hand", {"state": (7,)}, "in their state of 7 numbers: write points = 1 into their metadata"),
    ],
)
def test_a_frame_the_data_do_not_allow_is_refused(frame, shapes, message):
    with pytest.raises(ConfigError, match=message):
        ObservationEncoder(EncoderConfig(frame=frame), spec(shapes))


@pytest.mark.parametrize("first", [False, True])
def test_motion_is_that_of_the_newest_frames_and_not_of_the_first(first):
    config = EncoderConfig(history=2, first=first, frame="motion", dim=4)
    encoder = ObservationEncoder(config, spec({"state": (2,)}))
    state = torch.tensor([[[9.0, 9.0], [1.0, 2.0], [4.0, 8.0]]])[:, 0 if first else 1 :]
    seen = []
    encoder.encoders["state"].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))

    class Plain:
        keys = ("state",)

        def normalize(self, key, value):
            return value

    encoder(Looks(state, {}, torch.arange(state.shape[1])[None], None), Plain())
    expected = [[1.0, 2.0, -3.0, -6.0], [4.0, 8.0, 0.0, 0.0]]
    assert seen[0][0].tolist() == ([[9.0, 9.0, 0.0, 0.0]] if first else []) + expected


def test_seen_from_the_hand_a_frame_tells_how_far_the_first_one_lies_back():
    """Without it, what only the first frame shows could not be found again from where the hand is now."""
    config = EncoderConfig(history=2, first=True, frame="hand", dim=4)
    state = torch.rand(1, 3, 4, generator=keyed_generator(0))
    seen, _ = relative(config, Looks(state, {}, torch.arange(3)[None], None), 1)
    assert seen is not None
    assert seen.shape[-1] == state_width(config, 4)
    torch.testing.assert_close(seen[0, :, -3:], state[0, :, :3] - state[0, 0, :3])
    elsewhere, _ = relative(config, Looks(state + torch.tensor([1.0, 2.0, 0.0, 0.0]), {}, torch.zeros(1, 3), None), 1)
    torch.testing.assert_close(elsewhere, seen)


def test_limits_are_those_of_what_the_encoder_sees(monkeypatch):
    """Found block by block; the hand stays at zero, so that `encoder.zoom` resolves finely about it."""
    data = small.demonstrations("cloud")
    config = EncoderConfig(frame="hand")
    whole = fit_normalizer(config, AugmentationConfig(), data)
    monkeypatch.setattr(Demonstrations.pieces, "__kwdefaults__", {"rows": 10})
    parts = fit_normalizer(config, AugmentationConfig(), data)
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), parts.state_dict().values(), strict=True))
    about = data.arrays["cloud"] - data.arrays["state"][:, None, :3]
    normal = whole.normalize("cloud", about)
    torch.testing.assert_close(normal.abs().amax((0, 1)), torch.ones(3))
    torch.testing.assert_close(whole.normalize("cloud", torch.zeros(1, 1, 3)), torch.zeros(1, 1, 3))


def test_images_are_not_normalised_by_limits():
    data = small.demonstrations()
    pictures = torch.zeros(len(data.arrays["action"]), 8, 8, 3, dtype=torch.uint8)
    data = Demonstrations({**data.arrays, "rgb": pictures}, data.ends, data.seeds, data.meta)
    assert set(fit_normalizer(CONFIG, AugmentationConfig(), data).keys) == {"action", "state"}
