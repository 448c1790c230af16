from pathlib import Path

import numpy as np
import pytest

from mgp.envs import make_env
from mgp.envs.oracle import share
from mgp.errors import ConfigError

# clouds of seed 3 after 20 steps of the expert, made when the segmented cloud was the default
BEFORE = np.load(Path(__file__).parent / "data" / "oracle_clouds.npz")


@pytest.mark.parametrize("key", BEFORE.files)
def test_oracle_is_the_old_default(key):
    """Equal to the bit on the machine that made them; a processor may sum three products in another order."""
    env = make_env(key.replace(".", "/"), cloud="oracle")
    env.reset(seed=3)
    expert = env.expert()
    for _ in range(20):
        env.advance(expert())
    assert np.allclose(env.observe()["cloud"], BEFORE[key], rtol=0, atol=1e-6)


@pytest.mark.parametrize("option", ["depth_noise", "camera_shift"])
def test_oracle_has_no_depth_image(option):
    with pytest.raises(ConfigError, match=f"{option}=0.002 must be 0 with cloud='oracle'.*choose cloud='camera'"):
        make_env("metaworld/push", cloud="oracle", **{option: 0.002})


def test_share():
    assert share(10, np.array([100, 2, 100])).tolist() == [4, 2, 4]
    assert share(10, np.array([1, 2, 3])).tolist() == [1, 2, 3]
    assert share(5, np.array([0, 0, 9])).tolist() == [0, 0, 5]
    assert share(3, np.array([0, 0])).tolist() == [0, 0]
