from pathlib import Path

import pytest
from made_up_run import write_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("runs")
    return [write_run(root / "short", "MGP-Short", 0.95), write_run(root / "long", "MGP-Long", 0.8, seed=1)]
