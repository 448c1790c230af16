"""The house has one-way doors: a file imports only from its own room and from rooms to its left."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mgp"
# from left to right
ROOMS = [
    "errors", "extras", "files", "config", "graph", "processes", "envs", "data", "tokenizer", "model", "sampling",
    "policies", "presets", "training", "engines", "runs", "evaluation", "runtime", "client", "workflows", "report",
    "commands", "cli",
]  # fmt: skip
# file: (module it may import all the same, why)
EXCEPTIONS = {
    "workflows/demo.py": ("mgp.cli", "starts each training as a process of its own, by the words a user would type"),
}
# `evaluation/` judges any policy; these files are about MGP itself
ABOUT_MGP = {"confidence", "confidence_parts", "confidence_record", "probe", "tokenizer", "open_loop"}
ABOUT_MGP |= {"calibration", "scored"}
FILES = sorted(SOURCE.rglob("*.py"))


def room(module: str) -> str:
    """Of "mgp.data.store" it is "data"; the package itself belongs to nobody: it only sets OpenMP and the version."""
    return module.split(".")[1] if "." in module else ""


def imported(path: Path) -> set[str]:
    """Every module of mgp that a file imports, at its top, in a function, for types only, or by name."""
    out: set[str] = set()
    inside = path.is_relative_to(SOURCE)
    package = ".".join(["mgp", *path.relative_to(SOURCE).parent.parts]) if inside else path.parent.name
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            out |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*base, *([module] if module else [])])
            # `from mgp import runs` and `from mgp.report import sections` name modules as well as things
            names = {f"{module}.{name.name}" for name in node.names}
            out |= {name for name in names if _is_module(name)} or {module}
        elif isinstance(node, ast.Constant) and _is_module(str(node.value)):  # registries: importlib.import_module
            out.add(str(node.value))
    return {module for module in out if module.split(".")[0] == "mgp"}


def _is_module(name: str) -> bool:
    if not re.fullmatch(r"mgp(\.\w+)+", name):
        return False
    path = SOURCE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def name_of(path: Path) -> str:
    return ".".join(["mgp", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def test_every_room_is_in_the_list():
    found = {room(name_of(path)) for path in FILES} - {""}
    assert found <= set(ROOMS), "a new room needs a place in the order"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_imported_from_the_right(path):
    own = room(name_of(path))
    allowed, _ = EXCEPTIONS.get(str(path.relative_to(SOURCE)), ("", ""))
    for module in imported(path) - {"mgp", allowed}:
        there = room(module)
        assert own, f"mgp/__init__.py is imported first by everybody, and imports nothing: {module}"
        assert ROOMS.index(there) <= ROOMS.index(own), f"{path} imports {module}, which is to the right of {own}"


def test_exceptions_are_still_needed():
    for name, (module, reason) in EXCEPTIONS.items():
        assert module in imported(SOURCE / name), f"{name} does not import {module} any more: strike it from the list"
        assert len(reason.split()) > 3, "say why"


@pytest.mark.parametrize("path", sorted((SOURCE / "training").glob("*.py")), ids=lambda path: path.name)
def test_training_knows_no_policy_by_name(path):
    methods = {module.name.removesuffix(".py") for module in (SOURCE / "policies").iterdir() if module.name[0] != "_"}
    shared = {"base", "config", "driver", "files", "learned", "together"}
    for module in imported(path):
        if room(module) == "policies":
            assert module.split(".")[2:3] in ([], *([name] for name in shared)), f"{path} imports {module}"
        assert room(module) not in ("tokenizer", "sampling"), f"{path} imports {module}, which is MGP's"
    said = path.read_text()
    everyones = {"act", "mgp", "random"}  # a verb, the package, numbers; as names of policies they are in capitals
    words = {"token", "codebook", "vq"} | methods - shared - everyones
    found = [word for word in words if re.search(rf"\b{word}", said, re.I)] + re.findall(r"\b(?:MGP|ACT\b|ACTC)", said)
    assert not found, f"{path} speaks of {found}: the loop is every policy's"


def test_evaluation_judges_any_policy():
    for path in (SOURCE / "evaluation").glob("*.py"):
        about = [m for m in imported(path) if m.startswith(("mgp.policies.mgp", "mgp.sampling", "mgp.tokenizer"))]
        assert not about or path.stem in ABOUT_MGP, f"{path} imports {about}"


def test_a_server_needs_neither_simulator_nor_training():
    """It runs a policy: it has no use for how one is trained or judged."""
    waiting, done = {"mgp.runtime.server", "mgp.client"}, set()
    while waiting - done:
        module = (waiting - done).pop()
        done.add(module)
        found = imported(SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py"))
        foreign = [name for name in found if room(name) in ("envs", "training", "evaluation", "workflows")]
        assert not foreign, f"{module} imports {foreign}"
        waiting |= {name for name in found if name.startswith("mgp.runtime.")}
    assert len(done) > 10, "the rest of the server is found from there"


def test_nobody_builds_on_the_commands():
    """They parse and print; what they do can be called as functions of `workflows/`."""
    for path in [*FILES, *(ROOT / "benchmarks").glob("*.py")]:
        ours = path.is_relative_to(SOURCE)
        if ours and room(name_of(path)) in ("commands", "cli"):
            continue
        allowed = EXCEPTIONS.get(str(path.relative_to(SOURCE)), ("",))[0] if ours else ""
        using = [module for module in imported(path) - {allowed} if room(module) in ("commands", "cli")]
        assert not using, f"{path} imports {using}"


def test_commands_only_parse_and_print():
    """No tensors, no arrays, no files of their own: those are made in the rooms to the left."""
    for path in (SOURCE / "commands").glob("*.py"):
        tree = ast.parse(path.read_text())
        heavy = {"torch", "numpy", "zarr", "safetensors", "mujoco", "metaworld"}
        names = {alias.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
        names |= {(n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not names & heavy, f"{path} computes with {names & heavy}"


@pytest.mark.parametrize(
    ("where", "text", "found"),
    [
        ("data/x.py", "from mgp.policies import methods", {"mgp.policies"}),
        ("data/x.py", "from mgp.policies.mgp import MGP", {"mgp.policies.mgp"}),
        ("data/x.py", "def f():\n    import mgp.report.page", {"mgp.report.page"}),
        ("data/x.py", "from mgp import runs", {"mgp.runs"}),
        ("data/x.py", "from ..evaluation import rollout", {"mgp.evaluation.rollout"}),
        ("data/x.py", "from .store import EpisodeStore", {"mgp.data.store"}),
        ("data/x.py", "POLICIES = {'mgp': 'mgp.policies.mgp'}", {"mgp.policies.mgp"}),
        ("data/x.py", "from mgp import __version__", {"mgp"}),
        ("data/x.py", "import numpy as np", set()),
    ],
)
def test_the_reader_of_imports_finds_every_way_to_import(where, text, found, tmp_path, monkeypatch):
    """The test above would pass with a reader that finds nothing."""
    path = SOURCE / where

    class Written:
        relative_to, is_relative_to = path.relative_to, path.is_relative_to

        @staticmethod
        def read_text() -> str:
            return text

    assert imported(Written()) == found
