"""What is taken from the wire, and what is not: plain numbers, and nothing that could do anything."""

from __future__ import annotations

import pickle
import sys
import time
import tracemalloc

import fuzz_wire
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hostile import HOSTILE, Bomb
from hypothesis import given, settings
from hypothesis import strategies as st

from mgp.errors import MessageError
from mgp.runtime.wire import DTYPES, pack, unpack


def _dictionaries(values):
    return st.dictionaries(st.text(max_size=8), values, max_size=3)


any_array = arrays.arrays(
    st.sampled_from(list(DTYPES.values())), arrays.array_shapes(min_dims=0, min_side=0, max_side=4)
)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
trees = st.recursive(plain | any_array, lambda inner: st.lists(inner, max_size=3) | _dictionaries(inner), max_leaves=8)
quick = settings(max_examples=200, deadline=None, derandomize=True)


def same(one, other) -> bool:
    if isinstance(one, np.ndarray):
        exact = one.dtype.newbyteorder("=") == other.dtype and one.shape == other.shape
        return exact and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (one != one and other != other)


@quick
@given(_dictionaries(trees))
def test_what_is_packed_comes_back(message):
    assert same(message, unpack(pack(message)))


@quick
@given(st.dictionaries(st.text(max_size=8), any_array, max_size=4))
def test_it_is_what_openpi_writes_and_reads(message):
    theirs = pytest.importorskip("openpi_client.msgpack_numpy", reason="openpi-client is not installed: `make setup`")
    assert theirs.packb(message) == pack(message)
    back = {key: value.astype(value.dtype.newbyteorder("=")) for key, value in theirs.unpackb(pack(message)).items()}
    assert same(message, back)


def test_scalars_come_back_with_their_type():
    for value in (np.float32(0.1), np.int8(-3), np.bool_(True), np.uint64(2**64 - 1), np.float16(1.5)):
        back = unpack(pack({"x": value}))["x"]
        assert (back, back.dtype) == (value, value.dtype)


def test_arrays_cannot_be_written_to():
    array = unpack(pack({"x": np.ones(3)}))["x"]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.array(["text"]), np.array([1j]), np.array([b"b"]), object()]
)
def test_what_is_no_number_cannot_be_sent(value):
    with pytest.raises(MessageError, match="cannot be sent"):
        pack({"x": value})


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_are_refused(name):
    data, said = HOSTILE[name]
    with pytest.raises(MessageError) as caught:
        unpack(data)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300
    assert "exploded" not in sys.modules


def test_a_message_cut_short_anywhere_is_refused():
    whole = pack({"state": np.arange(7, dtype=np.float32), "mgp": {"step": 3, "reset": True}, "prompt": "go"})
    assert unpack(whole)["prompt"] == "go"
    for length in range(len(whole)):
        with pytest.raises(MessageError):
            unpack(whole[:length])


def test_a_message_above_the_limit_is_not_even_read():
    data = pack({"x": np.zeros(1000)})
    assert unpack(data, limit=len(data))["x"].size == 1000
    with pytest.raises(MessageError, match=f"{len(data)} bytes, at most {len(data) - 1}"):
        unpack(data, limit=len(data) - 1)


def test_a_text_frame_is_no_message():
    with pytest.raises(MessageError, match="binary"):
        unpack("hello")


@pytest.mark.parametrize("filling", [b"\x90", b"\x80", b"\xa0", b"\xc0", b"\x91\x90"])
def test_a_small_message_does_not_become_a_large_one(filling):
    """A million empty lists would be 56 MB."""
    count = 2**20 // len(filling)
    parts = b"".join(b"\xdc\x01\x00" + filling * 256 for _ in range(count // 256))
    data = b"\xdc" + (count // 256 % 2**16).to_bytes(2, "big") + parts
    tracemalloc.start()
    with pytest.raises(MessageError):
        unpack(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@quick
@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data):
    fuzz_wire.target(data)


def test_the_fuzz_target_sees_what_it_looks_for():
    """It would pass a decoder that unpickles if it watched nothing."""
    fuzz_wire.watch()
    fuzz_wire._state["watching"] = True
    pickle.loads(pickle.dumps(Bomb()))
    fuzz_wire._state["watching"] = False
    assert {"exec", "pickle.find_class"} <= set(fuzz_wire._state["seen"])
    assert sys.modules.pop("exploded", None)


def test_a_thousand_hostile_messages():
    decoded = fuzz_wire.fuzz(1000, seed=1)
    assert 100 < decoded < 500, "both kinds are among them"


@pytest.mark.slow
def test_a_hundred_thousand_hostile_messages():
    begin = time.process_time()
    decoded = fuzz_wire.fuzz(100_000)
    assert 10_000 < decoded < 50_000
    assert time.process_time() - begin < 120
