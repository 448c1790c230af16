"""The 50 Meta-World V3 tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.policies import ENV_POLICY_MAP

from mgp.envs.base import Observation, RobotEnv
from mgp.envs.camera import Camera
from mgp.envs.checks import (
    check_options,
    check_range,
    checked_action,
    cloud_options,
    observation_space,
    refuse_reset_options,
)
from mgp.envs.metaworld_cloud import CAMERA, CAMERA_FOVY, CAMERA_POSITION, metaworld_look
from mgp.envs.metaworld_tasks import check_task, tasks
from mgp.envs.picture import Picture
from mgp.envs.scene import Scene
from mgp.errors import SimulationError, UnknownNameError

# its commands beyond 1 are clipped below
warnings.filterwarnings("ignore", message=r"Constant\(s\) may be too high", module=r"metaworld\.policies")
OBSERVATIONS = ("state", "cloud", "rgb", "depth")
HORIZON = 200  # every expert is done by then; Meta-World itself stops at 500
# for people: nearer to the table than the corner, and not on it
PICTURE_CAMERA = Camera.looking((0.8, 0.3, 0.75), (0.06, 0.66, 0.12), 57.0)


def make(task: str, observation: str = "cloud", **options: Any) -> MetaWorldEnv:
    check_options(MetaWorldEnv, "metaworld", options)
    return MetaWorldEnv(task, observation, **options)


class MetaWorldEnv(RobotEnv):
    """One task with unlimited goals. Actions are hand displacement x, y, z (1 = 1 cm) and gripper (1 closes).

    Holding is the zero vector for the hand; the gripper's dimension is a force, so its last command goes on, or
    whatever is carried would fall.
    """

    hold_last = (3,)
    unit = 0.01

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012

    def __init__(
        self,
        task: str,
        observation: str = "cloud",
        *,
        cloud: str = "camera",
        points: int = 512,
        depth_noise: float = 0.0,
        camera_shift: float = 0.0,
        size: int = 128,
        horizon: int = HORIZON,
    ):
        """For clouds: `cloud`, `points`, `depth_noise` and `camera_shift` in metres.

        - cloud="camera": what a depth camera and the robot's joint state give (camera_cloud.py);
        - cloud="oracle": points shared out by the simulator's segmentation (oracle.py);
        - cloud="paper": DP3's recipe (60 degrees, its crop, the arm left in, plain farthest points).

        `depth_noise` is the standard deviation of each pixel's depth; `camera_shift` is how far the camera stands from
        where it is believed to, in a direction that the episode's seed draws. In all clouds goal markers are seen, as
        in the paper's setting. For rgb and depth: `size` in pixels. For all: `horizon` in steps.
        """
        check_task(task)
        if observation not in OBSERVATIONS:
            raise UnknownNameError("observation", observation, OBSERVATIONS)
        looks = cloud_options(cloud, points, depth_noise, camera_shift)
        check_range("size", size, 16, 1024)
        check_range("horizon", horizon, 1, 500)  # 500: Meta-World refuses step 501
        self.name, self.observation, self.horizon = f"metaworld/{task}", observation, horizon
        # what `make_env` needs to build the same environment again
        self.options: dict[str, Any] = {"horizon": int(horizon)}
        if observation == "cloud":
            self.options |= looks
        elif observation != "state":
            self.options |= {"size": int(size)}
        self.render_mode = "rgb_array"
        self.hold_action = np.zeros(4, np.float32)
        self._sim: Any = ALL_V3_ENVIRONMENTS[f"{task}-v3"]()
        # unlimited goals drawn from the seed, and the goal in the state; the cached space is of the hidden goal
        self._sim._partially_observable = False
        self._sim.__dict__.pop("sawyer_observation_space", None)
        self._sim._freeze_rand_vec = False
        self._sim.seeded_rand_vec = True
        self._sim._set_task_called = True
        self._camera = Camera.of(self._sim.model, CAMERA, CAMERA_POSITION, CAMERA_FOVY)
        self._scene = Scene(self._sim.model)
        self._look = metaworld_look(cloud, self._scene, self._camera, points, depth_noise, camera_shift)
        self._picture: Picture | None = None
        self._gl: Any = None
        if observation in ("rgb", "depth"):
            from mgp.envs.gl import GLRenderer  # GL must not be needed for anything else

            self._gl = GLRenderer(self._sim.model, CAMERA, size)
        self._policy: Any = ENV_POLICY_MAP[f"{task}-v3"]
        self._state: np.ndarray | None = None  # (39,) float64, None before the first reset
        self._steps = 0
        self._seed = 0  # of the episode

        self.action_space = gym.spaces.Box(-1, 1, (4,), np.float32)
        width = 39 if observation == "state" else 9
        self.observation_space = observation_space(observation, width, (points, 3), size)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Observation, dict]:
        """Without a seed the next one is drawn from the generator of the last seeded reset, as Gymnasium asks."""
        refuse_reset_options(self.name, options)
        gym.Env.reset(self, seed=seed)
        self._seed = seed if seed is not None else int(self.np_random.integers(2**31))
        self._sim.seed(self._seed)
        self._state, _ = self._sim.reset()
        self._lay_out()
        # without it the goal markers of push, reach, pick-place and others are still those of the last episode
        mujoco.mj_forward(self._sim.model, self._sim.data)
        self._place_markers()
        self._steps = 0
        return self.observe(), {"success": False}

    def advance(self, action: np.ndarray) -> tuple[float, bool, bool, dict[str, Any]]:
        if self._state is None:
            raise SimulationError(f"{self.name} was stepped before its first reset; call reset(seed=...) first")
        if self._steps >= self.horizon:
            raise SimulationError(f"{self.name} was stepped past its horizon of {self.horizon}; call reset first")
        action = checked_action(self.name, action, 4)
        self._before_step(self._steps + 1)
        self._state, reward, _, _, info = self._sim.step(np.clip(action, -1, 1))
        self._place_markers()
        self._steps += 1
        truncated = self._steps >= self.horizon
        return float(reward), False, truncated, {**info, "success": bool(info["success"])}

    def _widen_goals(self) -> None:
        """For goals elsewhere: the state's goal is clipped to where Meta-World draws them, by a cached space."""
        space = self._sim.goal_space
        self._sim.goal_space = gym.spaces.Box(space.low - 0.5, space.high + 0.5, dtype=np.float64)
        self._sim.__dict__.pop("sawyer_observation_space", None)

    def _lay_out(self) -> None:
        """For tasks that begin otherwise than Meta-World's: called when an episode of its own has been drawn."""

    def _before_step(self, step: int) -> None:
        """For scenes that move: called before control step `step` (1 is the first) is simulated."""

    def observe(self) -> Observation:
        if self._state is None:
            raise SimulationError(f"{self.name} was looked at before its first reset; call reset(seed=...) first")
        if self.observation == "state":
            return {"state": self._state.astype(np.float32)}
        state, data = self.robot_state(), self._sim.data
        if self.observation == "cloud":
            return {"cloud": self._look(data, state[:3], (self._seed, self._steps)), "state": state}
        image = self._gl.rgb(data) if self.observation == "rgb" else self._gl.depth(data)
        return {self.observation: image, "state": state}

    def _place_markers(self) -> None:
        """Put the goal markers where they belong, for whoever looks; the simulation does not depend on them.

        Meta-World does so too, but then calls mj_forward, which puts them back where the model has them: in sweep,
        door-lock, door-unlock and coffee-button that is a place where no goal ever was.
        """
        for name, position in self._sim._target_site_config:
            # far away means not shown; pick-out-of-hole names the object's place instead of the goal's
            hidden = np.abs(position).max() > 5
            self._sim.data.site(name).xpos[:] = position[:3] if hidden else self._sim._target_pos[:3]

    def robot_state(self) -> np.ndarray:
        """(9,) the hand's and both fingers' positions, as in DP3."""
        data = self._sim.data
        sites = (data.site("rightEndEffector").xpos, data.site("leftEndEffector").xpos)
        return np.concatenate([self._sim.get_endeff_pos(), *sites]).astype(np.float32)

    def expert(self) -> Callable[[], np.ndarray]:
        """Meta-World's scripted policy; it reads the full state, whatever the observation mode is."""
        policy = self._policy()

        def act() -> np.ndarray:
            if self._state is None:
                raise SimulationError(f"{self.name}'s expert was asked before the first reset")
            # commands reach +-25; the simulator would clip them to the same rollout
            return np.clip(policy.get_action(self._expert_state()), -1, 1).astype(np.float32)

        return act

    def _expert_state(self) -> np.ndarray:
        """(39,) what the expert is told."""
        assert self._state is not None
        return self._state

    def picture(self, size: int = 160) -> np.ndarray:
        check_range("size", size, 16, 1024)
        if self._state is None:
            raise SimulationError(f"{self.name} has no picture before its first reset; call reset(seed=...) first")
        if self._picture is None:
            self._picture = Picture(self._scene, PICTURE_CAMERA)
        return self._picture(self._sim.data, size)

    def render(self) -> np.ndarray:
        return self.picture()

    def close(self) -> None:
        if self._gl is not None:
            self._gl.close()
            self._gl = None
        self._sim.close()


__all__ = ["MetaWorldEnv", "make", "tasks"]
