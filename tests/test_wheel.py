"""What a user gets from `pip install`: the wheel alone, in an environment of its own, far from this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


def run(*words: str | Path, cwd: Path) -> str:
    """Without what points at this repository; what was said, for the assertion."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=clean, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, since setuptools leaves a build folder behind."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", folder, copy, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def mgp(wheel, tmp_path_factory) -> Path:
    """The command `mgp` of a fresh environment that has the wheel, and everybody else's packages from this one."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python", "--disable-pip-version-check", "--quiet")
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=place.parent)
    # A path in a .pth file is searched last, and the .pth files in it are not read: no editable mgp comes along.
    own = run(place / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place.parent)
    Path(own.strip(), "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(place / "bin/python", "-c", "import mgp, torch; print(mgp.__file__)", cwd=place.parent)
    assert Path(where.strip()).is_relative_to(place), "the installed package is the one that is tested"
    return place / "bin" / "mgp"


def test_the_wheel_has_every_file_of_the_package(wheel):
    there = {name.removeprefix("mgp/") for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mgp/")}
    source = ROOT / "src" / "mgp"
    ours = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} == there


def test_from_nothing_to_a_report_in_another_folder(mgp, tmp_path):
    assert "  metaworld/assembly" in run(mgp, "envs", cwd=tmp_path)
    task, few = "metaworld/door-close", ("--option", "points=64")
    assert "2 episodes" in run(mgp, "collect", task, "--episodes", "2", *few, cwd=tmp_path)
    small = ("--task.demonstrations", "2", "--training.eval-every", "0", "--policy.tokenizer.steps", "20")
    said = run(mgp, "train", "--task", task, *few, *small, "--minutes", "1", "--output", "run", cwd=tmp_path)
    assert "mgp eval run" in said
    assert "MGP-Short on metaworld/door-close" in run(mgp, "eval", "run", "--episodes", "1", cwd=tmp_path)
    run(mgp, "eval-tokenizer", "run", cwd=tmp_path)
    run(mgp, "report", "run", cwd=tmp_path)
    assert "MGP-Short" in (tmp_path / "report.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "run", "report.html"}
