from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mgp.data.demonstrations import Demonstrations
from mgp.data.store import EpisodeStore
from mgp.envs import make_env
from mgp.evaluation.tokenizer import evaluate_tokenizer
from mgp.files import write_atomic
from mgp.policies.mgp import MGP
from mgp.runs import Run, demonstrations_path


@dataclass(frozen=True)
class EvalTokenizer:
    """How much a tokenizer loses: reconstruction error, codes in use, and replay of reconstructed demonstrations."""

    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote
    data: Path | None = None  # demonstrations; default: those of the run


def main(arguments: list[str]) -> None:
    args = tyro.cli(EvalTokenizer, args=arguments, prog="mgp eval-tokenizer")
    run = Run.open(args.run)
    env = run.config.env
    store = EpisodeStore.open(args.data or demonstrations_path(env))
    demonstrations = Demonstrations.from_store(store).first(env.demonstrations)
    network = MGP.load(run.checkpoint).network  # a run that has its tokenizer only will do
    result = evaluate_tokenizer(network, demonstrations, make_env(env.name, "state", horizon=env.horizon))
    write_atomic(run.folder / "eval" / "tokenizer.json", json.dumps(result, indent=2).encode())
    for key, value in result.items():
        print(f"{key:>24}  {value:.6g}")
