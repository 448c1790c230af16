"""The README's tables, from results/*.csv: `python -m benchmarks.readme_table` writes them anew.

Each stands between two comments, <!-- NAME --> and <!-- /NAME -->, NAME a file of results/. Of a table only the newest
test block is shown: others are other episodes. A cell has Wilson's interval, and the paper's figure if there is one.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from mgp.errors import MGPError
from mgp.evaluation.csv_table import Line, read
from mgp.report.paper import paper_success

RESULTS, README = Path("results"), Path("README.md")
TABLES = ("metaworld", "baselines", "baselines_missing", "baselines_dynamic", "dynamic")
NAMES = {  # as their papers write them; what is not here is written as it is called
    **{"dp": "DP", "dp3": "DP3", "simple-dp3": "Simple-DP3", "dp3-full": "DP3-Full"},
    **{"consistency-policy": "Consistency Policy", "flow-policy": "FlowPolicy", "mp1": "MP1", "mip": "MIP"},
    **{
        "quest": "QueST",
        "vqbet": "VQ-BeT",
        "prise": "PRISE",
        "act": "ACT",
        "act-20": "ACT, chunks of 20",
        "resnet-t": "ResNet-T",
        "bc": "BC",
    },
}


def newest(lines: list[Line]) -> list[Line]:
    numbered = [line for line in lines if line.get("block")]  # those of mgp 0.1 have none
    last = max((int(line["block"]) for line in numbered), default=0)
    return [line for line in numbered if int(line["block"]) == last]


def table(lines: list[Line]) -> str:
    """Methods by tasks, by their mean over the tasks that all of them have."""
    count = Counter(line["task"] for line in lines)
    tasks = sorted(count, key=lambda task: (-count[task], task))
    cells = {(line["method"], line["task"]): line for line in lines}
    methods = list(dict.fromkeys(line["method"] for line in lines))
    shared = [task for task in tasks if all((method, task) in cells for method in methods)]

    def mean(method: str) -> float:
        return sum(float(cells[method, task]["success"]) for task in shared)

    methods.sort(key=mean, reverse=True)
    head = ["method", *(task.removeprefix("metaworld/") for task in tasks)]
    body = [[NAMES.get(one, one), *(cell(cells.get((one, task))) for task in tasks)] for one in methods]
    said = [f"| {' | '.join(row)} |" for row in (head, *body)]
    return "\n".join([said[0], "|---" * len(head) + "|", *said[1:]])


def cell(line: Line | None) -> str:
    if line is None:
        return ""
    low, high = (f"{float(line[name]):.2f}".removeprefix("0").replace("1.00", "1.0") for name in ("low", "high"))
    said = f"{float(line['success']):.2f} [{low}, {high}]"
    method = NAMES.get(line["method"], line["method"])
    paper = paper_success(method, line["task"], float(line.get("missing", 0)))
    return said if paper is None else f"{said} ({f'{paper:.2f}'.removeprefix('0')})"


def written(text: str, name: str, body: str) -> str:
    """The text with the table of that name replaced; without its two comments it stays as it is."""
    part = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    return part.sub(lambda found: f"{found[1]}{body}\n{found[2]}", text)


def tables() -> dict[str, str]:
    paths = {name: RESULTS / f"{name}.csv" for name in TABLES}
    return {name: table(newest(read(path)[1])) for name, path in paths.items() if path.exists()}


def main() -> int:
    try:
        text = README.read_text()
        for name, body in tables().items():
            text = written(text, name, body)
        README.write_text(text)
    except MGPError as error:
        print(f"benchmarks.readme_table: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
