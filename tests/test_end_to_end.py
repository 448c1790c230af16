"""The one real training: from nothing to a policy that closes unseen doors, by the commands a user types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mgp.cli import main
from mgp.envs import make_env
from mgp.evaluation.provenance import commit
from mgp.evaluation.rollout import rollout
from mgp.policies.random import RandomPolicy
from mgp.presets import get_config
from mgp.runs import Run, load_policy

TASK, HORIZON, EPISODES, SEED = "door-close", 100, 12, 10_000
SMALL = (
    f"--task {TASK} --task.observation state --option horizon={HORIZON} --task.demonstrations 8 --encoder.frame world"
    " --encoder.history 1 --encoder.zoom --encoder.dim 64 --augmentation.rotation 0 --augmentation.stretch 0"
    " --augmentation.state-noise 0.02 --training.steps 400 --training.batch 64 --training.warmup 20"
    " --policy.tokenizer.codes 64 --policy.tokenizer.code-dim 8 --policy.tokenizer.width 16"
    " --policy.tokenizer.steps 300 --policy.tokenizer.batch 64"
    " --policy.transformer.dim 64 --policy.transformer.cross-layers 1"
    " --policy.transformer.self-layers 1 --policy.sampling.execution-horizon 4"
).split()


@pytest.mark.xdist_group("end-to-end")
def test_a_small_policy_learns_an_easy_task_by_far_better_than_chance(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["train", "--method", "mgp-short", "--output", "runs/short", *SMALL])
    assert Path(f"data/metaworld-{TASK}-state-horizon={HORIZON}.zarr").is_dir(), "it collected its demonstrations"
    main(["eval", "runs/short", "--episodes", str(EPISODES), "--seed", str(SEED), "--workers", "1"])
    result = json.loads(Path(f"runs/short/eval/as-trained-seed{SEED}.json").read_text())
    said = capsys.readouterr().out
    assert f"MGP-Short on metaworld/{TASK} (state): success" in said

    envs = [make_env(f"metaworld/{TASK}", "state", horizon=HORIZON) for _ in range(EPISODES)]
    seeds = list(range(SEED, SEED + EPISODES))
    chance = sum(episode.success for episode in rollout(RandomPolicy.for_env(envs[0]), envs, seeds)) / EPISODES
    learned = sum(episode.success for episode in rollout(load_policy("runs/short"), envs, seeds)) / EPISODES
    assert chance <= 0.2
    assert learned >= 0.8
    assert result["success"] == pytest.approx(learned), "`mgp eval` says the same as a rollout by hand"

    main(["eval-tokenizer", "runs/short"])
    tokens = json.loads(Path("runs/short/eval/tokenizer.json").read_text())
    assert tokens["replay_of_originals"] == 1
    assert tokens["replay_success"] >= 0.8
    assert tokens["codes_in_use"] > 10
    main(["report", "runs/short", "--output", "report.html"])
    assert "MGP-Short" in Path("report.html").read_text()

    run = Run.open("runs/short")
    assert run.config.training.steps == 400
    assert run.config.policy.masking == get_config("mgp-short", TASK).policy.masking, (
        "what was not named is the method's"
    )
    assert not set(run.demonstration_seeds) & set(seeds)
    assert run.trained_at == commit()
