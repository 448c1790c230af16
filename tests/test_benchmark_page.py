"""docs/benchmark.md as somebody with a policy of their own follows it: its snippets run, its ids and tables hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from mgp.envs import make_env
from mgp.envs.registration import gym_id
from mgp.presets import get_config

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "benchmark.md").read_text()
COLLECTING, ROLLING, SEEDS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHIFTED = ("sorting/towel-nudged", "buttons/shifted", "metaworld-memory/pick-place-cue")


def run(program: str, folder: Path) -> str:
    """In a process of its own, which must not have loaded torch at the end."""
    program += '\nimport sys\nassert "torch" not in sys.modules\n'
    (folder / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_collecting_and_rolling_out_need_no_torch(tmp_path):
    few = COLLECTING.replace("episodes=100", "episodes=1, workers=1, progress=False")
    assert few != COLLECTING
    assert re.fullmatch(r"\(\d+, 15\) \(\d+, 1024, 6\) \(\d+, 6\)\n", run(few, tmp_path))
    assert (tmp_path / "data" / "towel-nudged.zarr").is_dir()
    expert = "my_policy = lambda: (lambda act: lambda frame: act())(env.unwrapped.expert())\n"
    short = (
        ROLLING.replace("10_050", "10_001").replace('nudged-v0"', 'nudged-v0", points=64').replace("solved = []", "")
    )
    assert run(short.replace("for seed", f"solved = []\n{expert}for seed"), tmp_path) == "1.0\n"
    said = run(f"{SEEDS}\nprint(seeds, low, high)", tmp_path)
    assert said.startswith("range(100000, 100050) 0.6")


def test_every_id_is_registered():
    ids = re.findall(r"mgp/[\w-]+-v0", re.sub(r"<task>", "push", TEXT))
    assert len(set(ids)) == 9
    assert all(name in gym.registry for name in ids)


@pytest.mark.parametrize("column", range(3))
def test_the_table_of_shifted_scenes_holds(column):
    name = SHIFTED[column]
    table = TEXT.split("## The shifted scenes\n\n")[1].split("\n\n")[0]
    rows = {cells[1].strip(): cells[2 + column].strip() for cells in (line.split("|") for line in table.splitlines())}
    env = make_env(name)
    assert rows["demonstrations"] == str(get_config(task=name).task.demonstrations)
    assert rows["horizon, control steps"] == f"{env.horizon} at {env.metadata['render_fps']} Hz"
    state, cloud = (env.observation_space[key].shape for key in ("state", "cloud"))
    assert rows["observations"] == f"state {state[0]}, cloud {cloud}"
    assert rows["action"].startswith(f"{env.action_space.shape[0]}, ")
    assert gym_id(env.static_twin).endswith(f"{rows['static twin, equal to the bit until the shift']}-v0")


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", TEXT))))
def test_what_is_linked_is_there(link):
    assert (ROOT / "docs" / link).exists()
