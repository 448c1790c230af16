from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mgp.engines import REFERENCE
from mgp.evaluation.calibration import study_calibration
from mgp.evaluation.calibration_record import Calibration
from mgp.evaluation.confidence import study_confidence
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.seeds import STUDY
from mgp.report.calibration import HEAD, calibration_rows, told, write_calibration
from mgp.report.confidence import confidence_rows, flip_rows, write_study
from mgp.runs import Run, pick_device


@dataclass(frozen=True)
class Analyze:
    """Look into a trained MGP-Long. `confidence` is the paper's confidence study, on unseen episodes:

    - heat-map of each token's confidence and map of the masked tokens, by replanning step;
    - mean confidence of the tokens still to be executed, by replanning step; if the scene begins to move, before and
      after that, beside the same seeds in the scene that stands still, with the plan edited as ever and with the last
      plan from before kept;
    - flip rate: the share of masked tokens that come back as another code, masking the least sure ones (ATR) and the
      surest, each driving the robot itself as in the paper, and both on the very same plans and observations;
    - flips by action: the share whose decoded actions change, as many codes mean almost the same actions.

    `calibration` asks, in a scene that changes, whether the scores of those tokens fall that are now wrong by more than
    1 cm (AUROC), for each score that ATR may go by (sampling.score), with the flip rates of each. The truth is the
    expert's way from the same state, in the scene as it is and as it was.

    Writes a page, a JSON and a CSV (a line for each replanning step, or token) to RUN/analysis; `mgp report` shows
    `confidence` too.

    Examples: mgp analyze confidence runs/basketball-mgp-long-seed0 --env metaworld-dynamic/basketball-midway;
    mgp analyze calibration runs/sorting-towel-nudged-mgp-long-seed0 --episodes 30"""

    study: Annotated[Literal["confidence", "calibration"], tyro.conf.Positional]  # what to look into
    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote, of an MGP-Long
    env: str | None = None  # another environment than the one trained on, e.g. metaworld-dynamic/basketball-midway
    episodes: int = 10  # of each kind: two maskings; if the scene moves, also its static twin, and a kept plan in both
    seed: int = STUDY[0]  # first seed; must not meet the demonstrations'
    near_codes: float | None = None  # sampling.near_codes, e.g. 8: near codes share a confidence; default: as the run
    output: Path | None = None  # the page; default: beside the figures in RUN/analysis
    workers: int | None = None  # processes; default: one a core
    device: str = "cpu"


def main(arguments: list[str]) -> None:
    args = tyro.cli(Analyze, args=arguments, prog="mgp analyze")
    run = Run.open(args.run)
    task = run.config.task
    name = args.env or task.name
    changes = {} if args.near_codes is None else {"near_codes": args.near_codes}
    asked = (
        run.loader(str(pick_device(args.device)), REFERENCE, **changes),
        name,
        task.observation,
        run.spec.options,
        range(args.seed, args.seed + args.episodes),
        run.demonstration_seeds,
    )
    near = "" if args.near_codes is None else f"-near{args.near_codes:g}"
    path = run.folder / "analysis" / f"{args.study}-{name.replace('/', '-')}-seed{args.seed}{near}"
    page = args.output or path.with_name(path.name + ".html")
    if args.study == "confidence":
        study = study_confidence(*asked, workers=args.workers)
        study.save(path)
        write_study(study, page)
        print(describe(study))
    else:
        calibration = study_calibration(*asked, workers=args.workers)
        calibration.save(path)
        write_calibration(calibration, page)
        print(describe_calibration(calibration))
    print(f"page: {page.resolve()}\nfigures: {path}.json, {path}.csv")


def describe(study: ConfidenceStudy) -> str:
    seeds = study.seeds
    title = f"MGP-Long trained on {study.trained_on}, in {study.env}: seeds {seeds[0]} to {seeds[-1]}"
    if study.overlap:
        title += f"\n{study.overlap}"
    tables = [flip_rows(study), confidence_rows(study)]
    return "\n\n".join([title, *(aligned([head, *body]) for head, body in tables)])


def describe_calibration(study: Calibration) -> str:
    title = f"MGP-Long trained on {study.trained_on}, in {study.env}: seeds {study.seeds[0]} to {study.seeds[-1]}"
    words = [title, *([study.overlap] if study.overlap else []), told(study)]
    return "\n\n".join(["\n".join(words), aligned([HEAD, *calibration_rows(study)])])


def aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
