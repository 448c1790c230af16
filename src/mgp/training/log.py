"""Training curves: metrics.csv for people and scripts, TensorBoard for browsers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from mgp.files import write_atomic

FIRST = ("stage", "step", "seconds", "loss")  # columns of every policy; its own figures follow


class MetricsLog:
    """Rows of one stage. A resumed run first drops the rows that the interrupted one wrote after its checkpoint.

    A policy logs whatever figures it likes: a new one adds a column, and the file is rewritten whole.
    """

    def __init__(self, run: Path, stage: str, from_step: int):
        from torch.utils.tensorboard import SummaryWriter

        self.path, self.stage = run / "metrics.csv", stage
        self.columns = list(FIRST)
        rows: list[dict[str, str]] = []
        if self.path.exists():
            with open(self.path, newline="") as file:
                reader = csv.DictReader(file)
                whole = [row for row in reader if (row["step"] or "").isdigit()]  # not cut off in writing
                self.columns += [name for name in reader.fieldnames or () if name not in FIRST]
            rows = [row for row in whole if row["stage"] != stage or int(row["step"]) <= from_step]
        self._rewrite(rows)
        self.board = SummaryWriter(str(run / "tensorboard"), purge_step=from_step or None)

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(self.path, text.getvalue().encode())
        self.file = open(self.path, "a", newline="")  # noqa: SIM115  closed by close()
        self.writer = csv.DictWriter(self.file, self.columns, restval="")

    def write(self, step: int, seconds: float, values: dict[str, float]) -> None:
        if new := [name for name in values if name not in self.columns]:
            self.file.close()
            with open(self.path, newline="") as file:
                rows = list(csv.DictReader(file))
            self.columns += new
            self._rewrite(rows)
        row = {"stage": self.stage, "step": step, "seconds": f"{seconds:.1f}"}
        self.writer.writerow(row | {key: f"{value:.6g}" for key, value in values.items()})
        self.file.flush()
        for key, value in values.items():
            self.board.add_scalar(f"{self.stage}/{key}", value, step)

    def close(self) -> None:
        self.file.close()
        self.board.close()
