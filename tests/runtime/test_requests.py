"""What a client may say beside its observation; what it may not is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from mgp.errors import MGPError, ObservationError, RequestError, UnknownNameError
from mgp.runtime.observations import admit
from mgp.runtime.refusals import NAMES, SENTENCE, refusal
from mgp.runtime.request import Address, Request, parse_address, parse_request
from mgp.runtime.warm_up import blank_frame


class Looks:
    """As much of a policy as an observation has to do with."""

    observation_shapes = {"state": (3,), "rgb": (2, 2, 3)}  # noqa: RUF012
    observation_uint8 = ("rgb",)

    class spec:
        instructions = ("open the door", "close the door")

    def seen(self, frame):
        return {key: np.asarray(frame[key]) for key in self.observation_shapes if key in frame}


FRAME = {"state": np.zeros(3), "rgb": np.zeros((2, 2, 3), np.uint8), "instruction": "open the door"}


def test_a_stock_client_says_nothing_but_the_observation():
    request = parse_request({"state": np.ones(3), "prompt": "open the door"})
    assert request == Request({"state": request.observation["state"], "instruction": "open the door"})


def test_all_words_of_the_extension():
    words = {"reset": True, "episode": "seven", "seed": 3, "step": 9, "executed": 4, "missing": True}
    words |= {"time": 1.5, "sent": 2, "deadline": 50.0, "beyond": 8}
    assert parse_request({"mgp": words}) == Request({}, **words)
    assert parse_request({"mgp": {"step": np.int64(3), "episode": None}}) == Request({}, step=3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"sead": 3}, "unknown word under 'mgp' 'sead'. Did you mean 'seed'?"),
        ({"observation": {}}, "unknown word under 'mgp' 'observation'"),
        ({"step": -1}, "step = '-1' must be a whole number from 0 on"),
        ({"step": 1.5}, "step = '1.5' must be a whole number"),
        ({"step": True}, "step = 'True' must be a whole number"),
        ({"executed": 2**40}, "executed = '1099511627776' must be"),
        ({"seed": "x"}, "seed = 'x' must be a whole number"),
        ({"reset": 1}, "reset = '1' must be True or False"),
        ({"missing": "no"}, "missing = 'no' must be True or False"),
        ({"time": float("nan")}, "time = 'nan' must be a finite number"),
        ({"deadline": float("inf")}, "deadline = 'inf' must be a finite number"),
        ({"episode": "x" * 129}, "must be a number or at most 128 letters"),
        ({"episode": [1]}, "must be a number or at most 128 letters"),
        (3, "'mgp' is a int: send a dictionary"),
    ],
)
def test_words_that_cannot_be(words, said):
    with pytest.raises(RequestError) as caught:
        parse_request({"mgp": words})
    assert said in str(caught.value)


@pytest.mark.parametrize("value", [[1.0, 2.0], {"x": 1}, None, b"bytes"])
def test_values_of_an_observation_are_arrays_numbers_and_texts(value):
    with pytest.raises(RequestError, match=r"'state' is a .*: send an array"):
        parse_request({"state": value})


def test_the_address_speaks_for_stock_clients():
    assert parse_address("") == Address(None, 0)
    assert parse_address("steps=1&seed=3") == Address(1, 3)
    for query in ("steps=0", "steps=-1", "steps=x", "steps=", "seed=99999999999999999999999", "beat=3"):
        with pytest.raises(RequestError):
            parse_address(query)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": np.array([0, np.nan, 0])}, "'state' contains NaN or Inf"),
        ({"state": np.array([0, np.inf, 0])}, "'state' contains NaN or Inf"),
        ({"state": np.array([0, 1e300, 0])}, "'state' contains NaN or Inf"),
        ({"state": np.zeros(4)}, "'state' has shape (4,), the policy was trained on (3,)"),
        ({"state": np.zeros((0, 3))}, "'state' has shape (0, 3)"),
        ({"state": np.zeros(3, bool)}, "'state' has dtype bool"),
        ({"state": "high"}, "'state' has shape ()"),
        ({"state": 3.0}, "'state' has shape ()"),
        ({"rgb": None}, "observation has no 'rgb'"),
        ({"rgb": np.zeros((2, 2, 3))}, "'rgb' has dtype float32, the policy was trained on bytes, 0 to 255"),
        ({"instruction": None}, "observation has no 'instruction', one of"),
        ({"instruction": 3}, "observation has no 'instruction', one of"),
    ],
)
def test_observations_that_must_not_reach_the_network(changes, said):
    frame = {key: value for key, value in {**FRAME, **changes}.items() if value is not None}
    with pytest.raises(ObservationError) as caught:
        admit(Looks(), frame)
    assert said in str(caught.value)


def test_an_unknown_instruction_is_named():
    with pytest.raises(UnknownNameError, match="Did you mean 'open the door'"):
        admit(Looks(), {**FRAME, "instruction": "open a door"})


def test_an_admitted_frame_is_a_copy_of_what_is_looked_at():
    sent = {**FRAME, "state": np.ones(3), "temperature": 20.0}
    frame = admit(Looks(), sent)
    assert set(frame) == {"state", "rgb", "instruction"}
    assert frame["state"].dtype == np.float32
    assert frame["rgb"].dtype == np.uint8, "images stay as they are"
    sent["state"][:] = 5
    assert frame["state"][0] == 1


def test_a_frame_to_warm_up_with_is_admitted():
    assert set(admit(Looks(), blank_frame(Looks()))) == {"state", "rgb", "instruction"}


def test_refusals_are_short_and_tell_no_secrets():
    assert refusal(ObservationError("'state' is bad")).text == "bad-observation: 'state' is bad"
    assert refusal(RuntimeError("secret.py line 3")).text == "internal: the server failed; its log says why"
    assert refusal(MGPError("inner")).name == "internal"
    long = refusal(RequestError("x\n\x1b[31m" * 500)).text
    assert len(long) <= SENTENCE + 20
    assert long.isprintable()
    assert refusal(RequestError("x")).name in NAMES
