"""Episodes of a scripted expert, and the folder that keeps finished ones until a store is written."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mgp.data.description import hold_to_json
from mgp.data.disturbance import Disturbance
from mgp.envs import RobotEnv, make_env
from mgp.errors import DataError
from mgp.files import write_atomic

Episode = dict[str, np.ndarray]  # (T, ...) an array a key: the observation's, "action" and "success"
# recordings of earlier versions do not say this, or say it otherwise: by the key that tells
NEW = {"actions": "actions", "hold_action": "actions"}


class Recorder:
    """Plays the expert from a seed. Pickled into the processes; the environment is built where it is used."""

    def __init__(self, env_name: str, observation: str, options: Mapping[str, Any], disturbed: bool = True):
        """`disturbed`: pushed about, where the environment says how (`RobotEnv.disturbance`)."""
        self.env_name, self.observation, self.options = env_name, observation, dict(options)
        self.disturbed = disturbed
        self._env: RobotEnv | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_env": None}

    @property
    def env(self) -> RobotEnv:
        if self._env is None:
            self._env = make_env(self.env_name, self.observation, **self.options)
        return self._env

    @property
    def disturbance(self) -> tuple[float, ...]:
        return self.env.disturbance if self.disturbed else ()

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **({"disturbance": list(self.disturbance)} if self.disturbance else {}),
            "env": self.env_name,
            "observation": self.observation,
            "options": self.env.options,
            "horizon": self.env.horizon,
            "hold_action": hold_to_json(self.env.hold_command()),
            "actions": self.env.actions,
        }

    def __call__(self, seed: int) -> Episode:
        """One full episode: what was seen before each action, the action, and whether the task was solved after it."""
        observation, _ = self.env.reset(seed=seed)
        expert, pushed = self.env.expert(), Disturbance(self.disturbance, seed) if self.disturbance else None
        steps: dict[str, list[np.ndarray]] = {key: [] for key in (*observation, "action", "success")}
        for _ in range(self.env.horizon):
            action = expert()
            for key, value in (*observation.items(), ("action", action)):
                steps[key].append(value)
            told = action if pushed is None else pushed(action)
            observation, _, terminated, truncated, info = self.env.step(told)
            steps["success"].append(np.asarray(info["success"]))
            if terminated or truncated:
                break
        return {key: np.stack(values) for key, values in steps.items()}


class Partial:
    """A folder with a file for each seed played so far; files are there whole or not at all."""

    def __init__(self, folder: Path):
        self.folder = folder

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Create the folder, or refuse one that was begun with other settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "settings.json"
        if file.exists():
            refuse_other(self.folder, json.loads(file.read_text()), settings)
        else:
            write_atomic(file, json.dumps(settings, indent=1).encode())

    def file(self, seed: int) -> Path:
        return self.folder / f"episode-{seed}.npz"

    def play(self, recorder: Recorder, seed: int) -> None:
        """Play one seed into its file; a failure leaves an empty one, so that resuming does not play it again."""
        episode = recorder(seed)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **(episode if episode["success"].any() else {}))
        write_atomic(self.file(seed), buffer.getvalue())

    def success_steps(self, seed: int) -> int:
        """How many steps of the seed's episode were successful, 0 if the expert failed; reads nothing else of it."""
        return int(self._read(seed, ("success",)).get("success", np.zeros(1)).sum())

    def read(self, seed: int) -> Episode:
        """What a store keeps of the episode of a seed."""
        return {key: array for key, array in self._read(seed).items() if key != "success"}

    def _read(self, seed: int, keys: tuple[str, ...] = ()) -> Episode:
        try:
            with np.load(self.file(seed), allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files if not keys or key in keys}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{self.file(seed)} cannot be read ({error}); delete that file and call again") from error


def refuse_other(path: Path, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse to go on with recordings made with other settings."""
    asked = {key: value for key, value in asked.items() if key not in NEW or NEW[key] in there}
    keys = [*asked, *(["disturbance"] if "disturbance" in there and "disturbance" not in asked else [])]
    different = [
        f"{key} {there.get(key)!r} (asked: {asked.get(key)!r})" for key in keys if there.get(key) != asked.get(key)
    ]
    if different:
        raise DataError(f"{path} was made with {', '.join(different)}; use another path, or --force to replace it")
