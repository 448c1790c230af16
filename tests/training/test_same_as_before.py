"""Four tiny runs give the bits they gave before the house was rebuilt (commit a0b9d8d): weights, averages, actions.

A change that is meant to change them, e.g. another default or another order of random draws, records them anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mgp.config import AugmentationConfig, EncoderConfig, TaskConfig, TrainingConfig
from mgp.data.demonstrations import Demonstrations
from mgp.model.transformer import TransformerConfig
from mgp.policies.config import RunConfig
from mgp.policies.driver import Driver
from mgp.policies.learned import LearnedPolicy
from mgp.policies.mgp.config import MGPConfig
from mgp.runs import load_policy
from mgp.sampling.config import SamplingConfig
from mgp.sampling.corruption import MaskingConfig
from mgp.tokenizer.vqvae import TokenizerConfig
from mgp.training.loop import Trainer

HORIZON, ACTION, POINTS, LENGTHS = 24, 3, 16, (24, 24, 20, 17, 24)
STATE = {"state": 7, "cloud": 9}
META = {"actions": "displacement", "horizon": HORIZON, "hold_action": [0.0, 0.0, None]}

# by how a machine rounds (`arithmetic`): recorded at commit a0b9d8d, before the house was rebuilt, and at 73b5e36,
# which gives those bits, on another processor. On that one the runs with clouds are recorded anew: their batches are
# drawn in full precision, and turned and stretched mostly by little. What has no line for a machine is not compared
# there.
BEFORE = {
    "f8767e8248e08bf5f89d0f911b17c632659f3b8df14fd90afba6b570e353243c": {
        "short-state": {
            "model": "6cbe456b1211509a2bbfd6d9105522e2d3120efeb64a0f30bd37b70022a12935",
            "policy": "0045b003ab02827b69a1493a8fc89edf0a0f42beddee5ea5f5485f422c31d31c",
            "actions": "95a08975f7a39be4ddee41af96beea853aede1b560f8ce64e76322f212fbe56e",
        },
        "long-state": {
            "model": "ad7118e62065eabb9191850de9d98e9cff7c911beebb611fcbf0b9dab376137a",
            "policy": "5d31ea6051f08f74c9c3953ee989461dca1d1122f4b4c93da4f8419a1ac30852",
            "actions": "e9bf337f9adc64dcc30b3f59f4b95cf8563ef601656ded3a656e74ab8d3e63b6",
        },
    },
    "e9a406f3371c564fc4c00d6fc553be9439cb7094f30bbac128f34d5ecbebc2fb": {
        "short-state": {
            "model": "00322e4ad7daa73ba96f0cfdb8ead9603d7db0edb23d24b523862c0f0bcbbc55",
            "policy": "b551a72265a45120e72fdcac0c9bc23731b985d0fbb7ca798f523dc1e3cb5606",
            "actions": "47302c2b29d287650d9687357c2d1622784ce2c52c9b545b71bd956eed21389c",
        },
        "short-cloud": {
            "model": "947cbb8395b3d1ed2aabc918218219a2d8a79baaab60dbc6fda46d27974bacaa",
            "policy": "d126bb63a6e88b6c270d48eb9a3cfc01499389f8e191d874d1eed0fd014ed8d0",
            "actions": "8a89dbd3a42604711d0f9736a608974585cf97fe7f235b009e46ccdfd1dd5706",
        },
        "long-state": {
            "model": "32ff8ead56b6708a0883e35776dcc63d94e72f4e3f496c0aa258c837d77d0280",
            "policy": "0065f43c436c01e2837538b0c9cf4015caa5e080515986f75cab1f42fefab865",
            "actions": "11ecaf4025f71b1f2d33c44319b10e4b0c3b8a7eb3b1752906d6eae30c5b9e7d",
        },
        "long-cloud": {
            "model": "10d4836e8c27fed88280e04ce2feb426b4e3b182eda5c78bae412fb375d958bf",
            "policy": "318ff15654deb3d729c7ae83745b1eac20061990a0fa0fe4aa267d284f51e787",
            "actions": "a78554340812679215375023ecef47a6ad81a47afd0cc2d9e4cf94d2b4d11814",
        },
    },
}

SHORT = MGPConfig(
    tokenizer=TokenizerConfig(window=8, codes=16, code_dim=4, width=8, steps=6, batch=8),
    transformer=TransformerConfig(dim=16, heads=2, cross_layers=1, self_layers=1),
    masking=MaskingConfig(prefix_weight=0.1),
    sampling=SamplingConfig(execution_horizon=4),
)
LONG = replace(SHORT, horizon="long", tokenizer=replace(SHORT.tokenizer, window=16))
TRAINING = TrainingConfig(
    steps=20,
    batch=8,
    segment=2,
    learning_rate=1e-3,
    warmup=2,
    auxiliary=0.5,
    precision="bf16",
    eval_every=0,
    checkpoint_every=1000,
)
PLAIN = AugmentationConfig(points=8, cloud_noise=0.01)
WARPED = replace(PLAIN, rotation=10.0, stretch=0.1)
WORLD = EncoderConfig(frame="world", hidden=(8, 16), dim=8)
HAND = replace(WORLD, frame="hand", zoom=(4.0,))


def run_config(
    observation: str,
    policy: MGPConfig,
    encoder: EncoderConfig,
    augmentation: AugmentationConfig,
    training: TrainingConfig = TRAINING,
) -> RunConfig:
    task = TaskConfig("metaworld/reach", observation, demonstrations=5)  # type: ignore[arg-type]
    return RunConfig("tiny", 0, task, encoder, augmentation, training, policy)


CONFIGS = {
    "short-state": run_config("state", SHORT, WORLD, PLAIN),
    "short-cloud": run_config("cloud", SHORT, HAND, WARPED, replace(TRAINING, early=2.0)),
    # what places on a table are learned with: memory of the first frame, foreign frames, plans without an end
    "long-state": run_config(
        "state",
        replace(
            LONG,
            transformer=replace(LONG.transformer, local=2, time="both"),
            masking=MaskingConfig(end=False, start=0.2, prefix_dropout=0.1, foreign_frame=1.0, near_weight=5.0),
            sampling=replace(LONG.sampling, near_codes=8.0, see_pending=True),
        ),
        replace(WORLD, first=True, frame="motion"),
        replace(PLAIN, state_noise=0.02),
    ),
    "long-cloud": run_config(
        "cloud",
        replace(LONG, masking=MaskingConfig(foreign_prefix=0.3, foreign_plan=0.3, near_weight=5.0)),
        HAND,
        WARPED,
    ),
}


def demonstrations(observation: str) -> Demonstrations:
    """Of this file alone: what other tests share may change."""
    random = np.random.default_rng(0)
    arrays: dict[str, list[np.ndarray]] = {"action": [], "state": []}
    if observation == "cloud":
        arrays["cloud"] = []
    for length in LENGTHS:
        time, phase = np.arange(length)[:, None] / 8, random.uniform(0, 6, (1, 1))
        wave = np.sin(time + phase + np.arange(STATE[observation]))
        arrays["action"].append(wave[:, :ACTION] + 0.05 * random.normal(size=(length, ACTION)))
        arrays["state"].append(0.3 * wave + 0.02 * random.normal(size=wave.shape))
        if observation == "cloud":
            arrays["cloud"].append(0.3 * wave[:, None, :3] + 0.1 * random.normal(size=(length, POINTS, 3)))
    tensors = {key: torch.from_numpy(np.concatenate(parts)).float() for key, parts in arrays.items()}
    return Demonstrations(tensors, torch.tensor(LENGTHS).cumsum(0), tuple(range(len(LENGTHS))), META)


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """Of shapes and values, whatever the tensors are called."""
    parts = [str(tuple(tensor.shape)).encode() + tensor.contiguous().numpy().tobytes() for tensor in tensors.values()]
    return sha256("".join(sorted(sha256(part) for part in parts)).encode())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def actions(policy: LearnedPolicy) -> np.ndarray:
    """Four plans of two episodes; the second of them is not observed at the third."""
    memory, out, first = Driver(policy, [3, 4]).memory, [], {}
    for step in range(4):
        random = np.random.default_rng(step)
        shapes = policy.observation_shapes.items()
        frames = {key: random.normal(0, 0.3, (2, 2, *shape)).astype(np.float32) for key, shape in shapes}
        if policy.first:
            first = first or {key: value[:, -1:].copy() for key, value in frames.items()}
            frames = {key: np.concatenate([first[key], value], 1) for key, value in frames.items()}
        chunk = policy.plan(frames, memory, np.array([True, step != 2]))
        memory.last = chunk.actions[:, chunk.run - 1]
        out.append(chunk.actions[:, : chunk.run])
    return np.stack(out)


def arithmetic() -> str:
    """How this machine rounds: the kinds of arithmetic that the runs consist of, with nothing of mgp in it."""
    random = torch.Generator().manual_seed(0)
    parameters = [torch.randn(shape, generator=random).requires_grad_() for shape in ((16, 16), (16,), (16, 16, 3))]
    weight, bias, kernel = parameters
    inputs = torch.randn(8, 16, 12, generator=random)
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, fused=True)
    for _ in range(5):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = torch.nn.functional.conv1d(inputs, kernel, padding=1).transpose(1, 2)
            hidden = torch.nn.functional.gelu(torch.nn.functional.layer_norm(hidden @ weight + bias, (16,)))
            scores = (hidden @ hidden.transpose(1, 2)).softmax(-1) @ hidden
        loss = -scores.float().log_softmax(-1)[..., 0].mean() + torch.cdist(weight, kernel[..., 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return digest({str(number): parameter.detach() for number, parameter in enumerate(parameters)})


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_gives_the_bits_it_gave_before(name, tmp_path: Path):
    recorded = BEFORE.get(arithmetic(), {}).get(name)
    if recorded is None:
        pytest.skip("this machine rounds otherwise than those the runs were recorded on")
    config = CONFIGS[name]
    path = Trainer(config, demonstrations(config.task.observation), tmp_path, quiet=True).train()
    training = load_file(path / "training.safetensors")
    weights = {key: tensor for key, tensor in training.items() if key.startswith("model.")}
    found = {
        "model": digest(weights),
        "policy": digest(load_file(path / "policy.safetensors")),
        "actions": sha256(actions(load_policy(tmp_path)).tobytes()),
    }
    assert found == recorded
