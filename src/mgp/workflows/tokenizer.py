"""How much the tokenizer of a run loses, on its demonstrations or on the held-out episodes of one's own."""

from __future__ import annotations

import json
from pathlib import Path

from mgp.envs import is_env, make_env
from mgp.errors import ConfigError
from mgp.evaluation.tokenizer import evaluate_tokenizer
from mgp.files import write_atomic
from mgp.policies.files import load_checkpoint
from mgp.policies.mgp import MGP
from mgp.runs import Run
from mgp.workflows.demonstrations import load_demonstrations
from mgp.workflows.held_out import held_out_of


def evaluate_tokenizer_of(run: Run, data: Path | None = None) -> dict[str, float]:
    """Writes RUN/eval/tokenizer.json."""
    policy, task = load_checkpoint(run.checkpoint), run.config.task  # a run that has its tokenizer only will do
    if not isinstance(policy, MGP):
        raise ConfigError(f"{run.folder} is a run of {run.config.method}, which has no tokenizer: name one of MGP")
    if is_env(task.name):
        env = make_env(task.name, "state", horizon=run.spec.horizon)
        result = evaluate_tokenizer(policy, load_demonstrations(task, data or run.data), env)
    else:
        demonstrations, episodes = held_out_of(run, data)
        result = evaluate_tokenizer(policy, demonstrations, None, episodes)
    write_atomic(run.folder / "eval" / "tokenizer.json", json.dumps(result, indent=2).encode())
    return result
