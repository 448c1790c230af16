"""The simulated depth camera and what is dropped of its image."""

import mujoco
import numpy as np
import pytest

from mgp.envs import make_env
from mgp.envs.camera import CORNERS, MAX_SIZE, Camera
from mgp.envs.depth import WHOLE, DepthCamera, Sight
from mgp.envs.rays import cast_geoms, cast_spheres
from mgp.envs.selffilter import MARGIN, SelfFilter
from mgp.envs.workspace import CLEAR, Workspace

MODEL = mujoco.MjModel.from_xml_string("""
<mujoco><worldbody>
  <geom type="box" size="1 1 .1" pos="0 0 -.1" group="2"/>
  <body pos=".1 0 .05"><freejoint/><geom type="box" size=".03 .02 .05" euler="0 0 30"/></body>
  <body pos="-.1 .1 .2" euler="0 40 0"><geom type="capsule" size=".03 .1" group="5"/></body>
</worldbody></mujoco>""")
CAMERA = Camera.looking((0.6, 0.0, 0.7), (0.0, 0.0, 0.05), 60.0)
SPACE = Workspace((-0.4, -0.4), (0.4, 0.4, 0.5), 0.0)


@pytest.fixture
def data() -> mujoco.MjData:
    data = mujoco.MjData(MODEL)
    mujoco.mj_forward(MODEL, data)
    return data


def sensor(**options) -> DepthCamera:
    return DepthCamera(Sight(MODEL, np.array([1]), SPACE.table, *SPACE.box), CAMERA, **options)


def test_pixels_are_those_of_one_grid(data):
    """Skipping leaves pixels out and never moves one; inside and outside of a rectangle make the whole."""
    whole, some = sensor(exhaustive=True).frame(data), sensor().frame(data)
    for stride in ((1, 1), (3, 2), (7, 7)):
        every = {tuple(pixel) for pixel in whole.pixels(stride)}
        assert len(every) == np.prod([len(range(s // 2, MAX_SIZE, s)) for s in stride])
        assert {tuple(pixel) for pixel in some.pixels(stride)} < every
    part = (300, 200, 500, 450)
    inside, outside = whole.pixels((3, 3), inside=part), whole.pixels((3, 3), outside=part)
    assert len(inside) + len(outside) == len(whole.pixels((3, 3)))
    assert ((inside >= part[:2]) & (inside < part[2:])).all()


def test_what_is_skipped_would_not_be_kept(data):
    whole, some = sensor(exhaustive=True).frame(data), sensor().frame(data)
    robot = SelfFilter(MODEL, np.array([2]))
    kept = []
    for frame in (whole, some):
        reading = frame.read(frame.pixels((4, 4)))
        hit = np.isfinite(reading.depth)
        rays, depth = reading.rays[hit], reading.depth[hit]
        points = CAMERA.position + rays * depth[:, None]
        kept.append(points[SPACE.keep(points) & ~robot.hides(data, CAMERA, rays, depth)])
    assert len(kept[0]) > 50
    assert np.array_equal(*kept)


def test_noise_has_its_deviation_and_repeats(data):
    noisy = sensor(noise=0.005)

    def errors(moment) -> np.ndarray:
        frame, clean = noisy.frame(data, moment), sensor(exhaustive=True).frame(data)
        pixels = frame.pixels((4, 4), of="table")
        difference = frame.read(pixels).depth - clean.read(pixels).depth
        table = np.isfinite(difference) & (np.abs(difference) < 0.04)  # not the link, which noise alone leaves out
        return difference[table]

    one = errors((3, 7))
    assert len(one) > 5000
    assert one.mean() == pytest.approx(0, abs=2e-4)
    assert one.std() == pytest.approx(0.005, rel=0.05)
    assert np.array_equal(one, errors((3, 7)))
    assert not np.array_equal(one[:100], errors((3, 8))[:100])
    assert not np.array_equal(one[:100], errors((4, 7))[:100])


def test_a_displaced_camera_shows_the_table_displaced(data):
    heights = []
    for seed in range(20):
        frame = sensor(shift=0.01).frame(data, (seed, 0))
        reading = frame.read(frame.pixels((16, 16), of="table"))
        hit = np.isfinite(reading.depth)
        points = CAMERA.position + reading.rays[hit] * reading.depth[hit, None]
        level, deviation = SPACE.find_table(points, np.abs(reading.rays[hit, 2]))
        assert deviation < 1e-6
        heights.append(level)
    assert np.abs(heights).max() < 0.01
    assert np.std(heights) == pytest.approx(0.01 / np.sqrt(3), rel=0.5)


def test_the_hull_of_a_link_hides_all_that_the_link_hides(data):
    rays = CAMERA.image(200)
    depth, geom = cast_geoms(MODEL, data, CAMERA.position, rays, np.ones(6, np.uint8))
    hidden = SelfFilter(MODEL, np.array([2])).hides(data, CAMERA, rays, depth)
    assert hidden[geom == 2].all()
    assert (geom == 2).sum() > 200
    # and little more: a box of the same sides, seen from one side, around a capsule
    assert hidden.sum() < 2 * (geom == 2).sum()
    in_front = SelfFilter(MODEL, np.array([2])).hides(data, CAMERA, rays, np.full(len(rays), 0.3))
    assert not in_front.any(), "the link begins behind a depth of 0.3 m"
    assert MARGIN > 0
    behind = depth[geom == 2] - 0.01  # noise has moved the link's own points towards the camera
    links = rays[geom == 2]
    assert not SelfFilter(MODEL, np.array([2])).hides(data, CAMERA, links, behind).all()
    assert SelfFilter(MODEL, np.array([2])).hides(data, CAMERA, links, behind, 0.01).all()


def test_the_hulls_of_a_real_arm_are_tight():
    """All that the meshes hide is hidden, and less than a fifth more; boxes hide a quarter more."""
    env = make_env("metaworld/assembly")
    env.reset(seed=0)
    look, data = env._look, env._sim.data
    links = np.array([0, 0, 0, 0, 0, 1], np.uint8)  # their group
    rays = look.sensor.camera.image(300)
    mesh = np.isfinite(cast_geoms(env._sim.model, data, look.sensor.camera.position, rays, links)[0])
    hidden = look.robot.hides(data, look.sensor.camera, rays, np.full(len(rays), np.inf))
    assert mesh.sum() > 2000
    assert hidden[mesh].all()
    assert hidden.sum() < 1.2 * mesh.sum()


def test_workspace():
    space = Workspace((-1.0, -1.0), (1.0, 1.0, 1.0), 0.1, ((0, 0, -0.1), (0.5, 0.5, 0.1)), (((0.8, -1, 0), (1, 1, 1)),))
    points = np.array(
        [[0, 0, 0.2], [0, 0, 0.1 + CLEAR / 2], [0.2, 0.2, 0.0], [0.2, 0.2, -0.1], [-0.2, 0, 0], [0.9, 0, 0.5]]
    )
    assert space.keep(points).tolist() == [True, False, True, False, False, False]
    assert space.find_table(np.array([[0, 0, 0.11]] * 3 + [[0, 0, 0.5]]), np.ones(4)) == (pytest.approx(0.01), 0.0)
    assert space.find_table(np.zeros((0, 3)), np.zeros(0)) == (0.0, 0.0)
    slopes = np.linspace(0.5, 1.5, 5000)  # depth has one deviation, heights have many
    noisy = np.random.default_rng(0).normal([0, 0, 0.1], [0.1, 0.1, 1], (5000, 3))
    noisy[:, 2] = 0.1 + 0.004 * slopes * (noisy[:, 2] - 0.1)
    level, deviation = space.find_table(noisy, slopes)
    assert abs(level) < 3e-4
    assert deviation == pytest.approx(0.004, rel=0.05)
    assert SPACE.keep(noisy - [0, 0, 0.1]).mean() > 0.03
    assert SPACE.keep(noisy - [0, 0, 0.1], 4.5 * deviation * slopes).sum() <= 1


def test_rectangles_hold_their_boxes():
    point = np.array([0.1, 0.2, 0.05])
    (top, left, bottom, right) = CAMERA.pixels(point + 0.01 * CORNERS[None])[0]
    row, column = CAMERA.project(point) * MAX_SIZE
    assert top < row < bottom
    assert left < column < right
    assert CAMERA.pixels(np.full((1, 8, 3), 100.0))[0].tolist()[:2] >= [0, 0]
    assert WHOLE == (0, 0, MAX_SIZE, MAX_SIZE)


def test_spheres():
    origin, directions = np.zeros(3), np.array([[2.0, 0, 0], [0, 1.0, 0], [1.0, 0, 0]])
    centres, radii = np.array([[4.0, 0, 0], [8.0, 0, 0]]), np.array([1.0, 1.0])
    distance, index = cast_spheres(centres, radii, origin, directions, np.array([np.inf, np.inf, 2.0]))
    assert distance.tolist() == [1.5, np.inf, 2.0]  # in lengths of the direction; the last is hidden
    assert index.tolist() == [0, -1, -1]


def test_the_robot_is_found_by_its_joints():
    """The arm turned away: the filter follows, since kinematics place its boxes."""
    env = make_env("metaworld/reach")
    env.reset(seed=0)
    data, look = env._sim.data, env._look
    before = look.robot.hides(data, look.sensor.camera, look.sensor.camera.image(64), np.full(64 * 64, 2.0))
    data.qpos[0] += 0.5
    mujoco.mj_kinematics(env._sim.model, data)
    after = look.robot.hides(data, look.sensor.camera, look.sensor.camera.image(64), np.full(64 * 64, 2.0))
    assert before.sum() > 200
    assert (before != after).sum() > 100
