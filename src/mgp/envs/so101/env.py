"""What the SO-101 environments have in common: options, spaces, looking, and the rules of stepping."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from mgp.envs.base import Observation, RobotEnv
from mgp.envs.camera import Camera
from mgp.envs.checks import check_range, checked_action, cloud_options, observation_space, refuse_reset_options
from mgp.envs.so101.buttons_scene import CAMERA
from mgp.envs.so101.cloud import ColourCaster, Thing
from mgp.envs.so101.controller import ACTION_HIGH, ACTION_LOW, Base, Controller
from mgp.envs.so101.look import so101_look
from mgp.envs.workspace import Workspace
from mgp.errors import SimulationError, UnknownNameError

OBSERVATIONS = ("state", "cloud", "rgb", "depth")
EXPERT_STREAM = 0x736F313031  # keeps an expert's draws apart from those of the scene


class So101Env(RobotEnv):
    """One seeded task; see controller.py for the action. The world is built once, and an episode is a reset of it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    actions = "absolute"
    disturbance = (0.008, 0.008, 0.004, 0.0, 0.0, 0.0)  # metres, of the fingertip's target
    hold_last = (0, 1, 2, 3, 4, 5)  # targets are absolute: the last command holds the place

    def __init__(
        self, name: str, observation: str, model: mujoco.MjModel, cameras: tuple[Camera, Camera],
        things: Sequence[Thing], changing: Sequence[int], workspace: Workspace, *, cloud: str, points: int,
        depth_noise: float, camera_shift: float, size: int, horizon: int,
    ):  # fmt: skip
        """`cameras`: the policy's and the picture's; `things` and `changing`: see cloud.py.

        For clouds: `cloud` is "camera" (what a depth camera with colours and the robot's joint state give,
        camera_cloud.py), "oracle" (points shared out by the simulator's segmentation, cloud.py) or "paper" (DP3's
        recipe). `depth_noise`, `camera_shift` in metres: see MetaWorldEnv. For rgb and depth: `size` in pixels.
        """
        if observation not in OBSERVATIONS:
            raise UnknownNameError("observation", observation, OBSERVATIONS)
        looks = cloud_options(cloud, points, depth_noise, camera_shift)
        check_range("size", size, 16, 1024)
        check_range("horizon", horizon, 1, 10_000)
        self.name, self.observation, self.horizon = name, observation, horizon
        self.options: dict[str, Any] = {"horizon": int(horizon)}
        if observation == "cloud":
            self.options |= looks
        elif observation != "state":
            self.options |= {"size": int(size)}
        self.render_mode = "rgb_array"
        self.hold_action = np.zeros(6, np.float32)  # no direction: keeps the last target
        self.model, self.data = model, mujoco.MjData(model)
        self.caster = ColourCaster(model, cameras[0], points, things, changing)
        self._look = so101_look(cloud, self.caster, workspace, depth_noise, camera_shift)
        self._picture_camera = cameras[1]
        self._gl: Any = None
        if observation in ("rgb", "depth"):
            from mgp.envs.gl import GLRenderer  # GL must not be needed for anything else

            self._gl = GLRenderer(model, CAMERA, size)
        self.controller = Controller(model, self.data, self.build_base())
        self._steps = -1  # before the first reset
        self._seed = self._expert_seed = 0
        self._over = False

        self.action_space = gym.spaces.Box(ACTION_LOW, ACTION_HIGH, dtype=np.float32)
        width = len(self.robot_state()) + (len(self.scene_state()) if observation == "state" else 0)
        self.observation_space = observation_space(observation, width, (points, 6), size)

    @abstractmethod
    def build_base(self) -> Base:
        """What the arm stands on."""

    @abstractmethod
    def start(self, random: np.random.Generator) -> None:
        """Lay out an episode; the data are those of a fresh world."""

    def before_step(self, step: int) -> None:
        """For scenes that are shifted: called before control step `step` (1 is the first) is simulated."""

    @abstractmethod
    def judge(self) -> tuple[float, bool, bool, dict[str, Any]]:
        """After a control step: (reward, terminated, success, further info)."""

    @abstractmethod
    def scene_state(self) -> np.ndarray:
        """What beside the robot is in the low-dimensional observation."""

    @abstractmethod
    def plan(self, random: np.random.Generator) -> np.ndarray:
        """A demonstration (T, 6) from now to the end of the present episode."""

    def robot_state(self) -> np.ndarray:
        """Fingertip position first; see `Controller.state`."""
        return self.controller.state()

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Observation, dict]:
        """Without a seed the next one is drawn from the generator of the last seeded reset, as Gymnasium asks."""
        refuse_reset_options(self.name, options)
        gym.Env.reset(self, seed=seed)
        self._seed = seed if seed is not None else int(self.np_random.integers(2**31))
        random = np.random.default_rng(self._seed)
        mujoco.mj_resetData(self.model, self.data)
        self.shifted_at = None
        self.start(random)
        mujoco.mj_forward(self.model, self.data)
        self._expert_seed = int(random.integers(2**31))
        self._steps, self._over = 0, False
        return self.observe(), {"success": False}

    def advance(self, action: np.ndarray) -> tuple[float, bool, bool, dict[str, Any]]:
        self._check_started("stepped")
        if self._steps >= self.horizon or self._over:
            why = "end" if self._over else f"horizon of {self.horizon}"
            raise SimulationError(f"{self.name} was stepped past its {why}; call reset first")
        action = checked_action(self.name, action, 6)
        self.before_step(self._steps + 1)
        self.controller.advance(action)
        self._steps += 1
        reward, terminated, success, info = self.judge()
        self._over = terminated
        return reward, terminated, self._steps >= self.horizon, {**info, "success": success}

    def observe(self) -> Observation:
        self._check_started("looked at")
        if self.observation == "state":
            return {"state": np.concatenate([self.robot_state(), self.scene_state()]).astype(np.float32)}
        state = self.robot_state().astype(np.float32)
        if self.observation == "cloud":
            return {"cloud": self._look(self.data, state[:3], (self._seed, self._steps)), "state": state}
        image = self._gl.rgb(self.data) if self.observation == "rgb" else self._gl.depth(self.data)
        return {self.observation: image, "state": state}

    def expert(self) -> Callable[[], np.ndarray]:
        """A demonstration planned when it is first asked, the same one for the same episode.

        When the scene has been shifted the rest is planned anew, from where the robot is.
        """
        actions: np.ndarray | None = None
        random: np.random.Generator | None = None
        began, shifted_at = 0, None

        def act() -> np.ndarray:
            nonlocal actions, random, began, shifted_at
            self._check_started("asked for its expert's action")
            if actions is None or shifted_at != self.shifted_at:
                random = random or np.random.default_rng([EXPERT_STREAM, self._expert_seed])
                actions, began, shifted_at = self.plan(random), self._steps, self.shifted_at
            return actions[min(self._steps - began, len(actions) - 1)]

        return act

    def picture(self, size: int = 160) -> np.ndarray:
        check_range("size", size, 16, 1024)
        self._check_started("pictured")
        return self.caster.picture(self.data, self._picture_camera, size)

    def render(self) -> np.ndarray:
        return self.picture()

    def close(self) -> None:
        if self._gl is not None:
            self._gl.close()
            self._gl = None

    def _check_started(self, what: str) -> None:
        if self._steps < 0:
            raise SimulationError(f"{self.name} was {what} before its first reset; call reset(seed=...) first")
