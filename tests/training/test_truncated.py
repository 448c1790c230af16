"""A checkpoint that was cut off, wherever: a named error, never a part of its weights.

The seal's checksums find every cut. A seal that was made after the cut, as by a tool that copies half a file and sums
it up, does not: then whoever reads the weights must notice.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import small
from mgp.errors import CheckpointError
from mgp.files import seal
from mgp.policies.files import load_checkpoint, save_policy
from mgp.runs import Run, load_policy
from mgp.training.checkpoint import checkpoints, newest, restore
from mgp.training.loop import Trainer

LENGTH = 8  # bytes that say how long the header is


def cuts(content: bytes) -> list[int]:
    """Lengths of a safetensors file that was cut off: inside and after each of its parts."""
    header = int.from_bytes(content[:LENGTH], "little")
    data = LENGTH + header
    described = json.loads(content[LENGTH:data])
    spans = sorted(one["data_offsets"] for name, one in described.items() if name != "__metadata__")
    assert spans[0][0] == 0
    assert data + spans[-1][1] == len(content), "the last tensor ends the file"
    ends = [data + end for _, end in spans[:-1]]
    middles = [data + (begin + end) // 2 for begin, end in spans if end - begin > 1]
    inside = [0, 1, LENGTH - 1, LENGTH, LENGTH + 1, LENGTH + header // 2, data - 1, data, data + 1]
    return sorted({*inside, *ends, *middles, len(content) - 1})


def sealed_anew(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").unlink()
    seal(folder, {key: value for key, value in meta.items() if key not in ("sha256", "seal")})


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run with two checkpoints."""
    run = tmp_path_factory.mktemp("runs") / "trained"
    config = small.tiny("long", **{"training.checkpoint_every": 3})
    Trainer(config, small.demonstrations(), run, quiet=True).train()
    assert len(checkpoints(run)) == 2
    return run


@pytest.mark.parametrize("anew", [False, True], ids=["as it was sealed", "sealed after the cut"])
def test_weights_that_were_cut_off_are_refused_at_every_boundary(anew, tmp_path):
    folder = tmp_path / "policy"
    save_policy(small.policy(small.tiny("long")), folder)
    file = folder / "policy.safetensors"
    content, meta = file.read_bytes(), (folder / "meta.json").read_bytes()
    places = cuts(content)
    assert len(places) > 60, "each tensor has its own"
    for length in places:
        file.write_bytes(content[:length])
        if anew:
            (folder / "meta.json").write_bytes(meta)
            sealed_anew(folder)
        for load in (load_checkpoint, load_policy):
            with pytest.raises(CheckpointError, match=r"policy\.safetensors"):
                load(folder)
    file.write_bytes(content)
    (folder / "meta.json").write_bytes(meta)
    load_checkpoint(folder)


def test_a_training_state_that_was_cut_off_is_passed_over_and_changes_nothing(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    older, newer = checkpoints(run)
    file = newer / "training.safetensors"
    content, meta = file.read_bytes(), (newer / "meta.json").read_bytes()
    policy = small.policy(Run.open(run).config)
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    for length in [*cuts(content)[::5], len(content) - 1]:  # each of them is three of the policy's
        file.write_bytes(content[:length])
        (newer / "meta.json").write_bytes(meta)
        assert newest(run)[0] == older
        sealed_anew(newer)
        with pytest.raises(CheckpointError, match=r"training\.safetensors cannot be read"):
            restore(newer, policy)
        assert all(torch.equal(tensor, before[name]) for name, tensor in policy.state_dict().items()), length
    file.write_bytes(content)
    restore(newer, policy)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in policy.state_dict().items())


@pytest.mark.parametrize("name", ["meta.json", "config.json"])
def test_a_description_that_was_cut_off_is_refused(name, tmp_path):
    folder = tmp_path / "policy"
    save_policy(small.policy(small.tiny()), folder)
    content = (folder / name).read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        (folder / name).write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            load_checkpoint(folder)
