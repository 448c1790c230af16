from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mgp.runs import Run
from mgp.workflows.tokenizer import evaluate_tokenizer_of


@dataclass(frozen=True)
class EvalTokenizer:
    """How much a tokenizer loses: reconstruction error, codes in use, and replay of reconstructed demonstrations.

    Without a simulator nothing is replayed, and the error is that on the held-out episodes."""

    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote
    data: Path | None = None  # demonstrations; default: those of the run


def main(arguments: list[str]) -> None:
    args = tyro.cli(EvalTokenizer, args=arguments, prog="mgp eval-tokenizer")
    for key, value in evaluate_tokenizer_of(Run.open(args.run), args.data).items():
        print(f"{key:>24}  {value:.6g}")
