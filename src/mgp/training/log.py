"""Training curves: metrics.csv for people and scripts, TensorBoard for browsers."""

from __future__ import annotations

import csv
from pathlib import Path

COLUMNS = ("stage", "step", "seconds", "loss", "reconstruction", "commit", "codes", "accuracy", "regression")


class MetricsLog:
    """Rows of one stage. A resumed run first drops the rows that the interrupted one wrote after its checkpoint."""

    def __init__(self, run: Path, stage: str, from_step: int):
        from torch.utils.tensorboard import SummaryWriter

        path = run / "metrics.csv"
        rows = []
        if path.exists():
            with open(path, newline="") as file:
                whole = [row for row in csv.DictReader(file) if (row["step"] or "").isdigit()]  # not cut off in writing
            rows = [row for row in whole if row["stage"] != stage or int(row["step"]) <= from_step]
        run.mkdir(parents=True, exist_ok=True)
        self.stage = stage
        self.file = open(path, "w", newline="")  # noqa: SIM115  closed by close()
        self.writer = csv.DictWriter(self.file, COLUMNS)
        self.writer.writeheader()
        self.writer.writerows(rows)
        self.board = SummaryWriter(str(run / "tensorboard"), purge_step=from_step or None)

    def write(self, step: int, seconds: float, values: dict[str, float]) -> None:
        row = {"stage": self.stage, "step": step, "seconds": f"{seconds:.1f}"}
        self.writer.writerow(row | {key: f"{value:.6g}" for key, value in values.items()})
        self.file.flush()
        for key, value in values.items():
            self.board.add_scalar(f"{self.stage}/{key}", value, step)

    def close(self) -> None:
        self.file.close()
        self.board.close()
