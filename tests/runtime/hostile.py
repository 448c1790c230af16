"""Messages that must be refused, and a part of what is said then."""

from __future__ import annotations

import pickle

import msgpack

from mgp.runtime.wire import CONTAINERS, DEPTH, ELEMENTS, TEXT


class Bomb:
    def __reduce__(self):
        return exec, ("import sys; sys.modules['exploded'] = sys",)


def array_of(**fields) -> bytes:
    whole = {"__ndarray__": True, "data": b"12345678", "dtype": "<f4", "shape": [2]} | fields
    return msgpack.packb({"state": {key.encode(): value for key, value in whole.items() if value != "gone"}})


HOSTILE = {
    "objects": (array_of(dtype="|O", shape=[1]), "dtype '|O': only plain numbers are taken"),
    "a pickled bomb": (pickle.dumps(Bomb()), "msgpack"),
    "a bomb as objects": (array_of(dtype="|O", data=pickle.dumps(Bomb()), shape=[1]), "only plain numbers"),
    "a structure": (array_of(dtype="f4,f4"), "only plain numbers"),
    "text": (array_of(dtype="<U2", shape=[1]), "only plain numbers"),
    "complex": (array_of(dtype="<c8", shape=[1]), "only plain numbers"),
    "times": (array_of(dtype="<M8[s]", shape=[1]), "only plain numbers"),
    "a dtype that is no text": (array_of(dtype=["<f4"]), "only plain numbers"),
    "too few bytes": (array_of(shape=[3]), "8 bytes, its shape and dtype float32 need 12"),
    "too many bytes": (array_of(shape=[1]), "8 bytes, its shape and dtype float32 need 4"),
    "a huge shape": (array_of(shape=[2**40, 2**40]), "need"),
    "nothing, and huge": (array_of(data=b"", shape=[0, 2**62, 2**62]), "too large"),
    "a negative size": (array_of(shape=[-2]), "no list of at most 8 sizes"),
    "sizes that are no numbers": (array_of(shape=["2"]), "no list of at most"),
    "a size that is True": (array_of(shape=[True, 2]), "no list of at most"),
    "many axes": (array_of(shape=[1] * 40), "no list of at most"),
    "data that are text": (array_of(data="12345678"), "not bytes"),
    "no shape": (array_of(shape="gone"), "must have the keys"),
    "one key more": (array_of(more=1), "must have the keys"),
    "an array that says no": (array_of(__ndarray__=False), "must have the keys"),
    "a scalar that does not fit": (
        msgpack.packb({"x": {b"__npgeneric__": True, b"data": 300, b"dtype": "|u1"}}),
        "cannot hold",
    ),
    "a scalar that becomes Inf": (
        msgpack.packb({"x": {b"__npgeneric__": True, b"data": 1e300, b"dtype": "<f4"}}),
        "cannot hold",
    ),
    "a scalar of bytes": (msgpack.packb({"x": {b"__npgeneric__": True, b"data": b"1", b"dtype": "<f4"}}), "no number"),
    "deep lists": (b"\x91" * 5000 + b"\xc0", "msgpack"),
    "deep, but no more than msgpack allows": (b"\x91" * 900 + b"\xc0", "more than"),
    "a little too deep": (b"\x81\xa1a" * (DEPTH + 1) + b"\xc0", f"more than {DEPTH} deep"),
    "a long list": (msgpack.packb({"x": [0] * (ELEMENTS + 1)}), "max_array_len"),
    "a large dictionary": (msgpack.packb({str(i): 0 for i in range(ELEMENTS + 1)}), "max_map_len"),
    "a long text": (msgpack.packb({"x": "y" * (TEXT + 1)}), "max_str_len"),
    "many lists": (msgpack.packb({str(i): [[]] * 200 for i in range(200)}), f"more than {CONTAINERS}"),
    "a list that promises more": (b"\xdd\xff\xff\xff\xff", "msgpack"),
    "bytes that promise more": (b"\xc6\xff\xff\xff\xff", "msgpack"),
    "keys that are numbers": (msgpack.packb({1: 2}), "msgpack"),
    "keys that are bytes": (msgpack.packb({b"x": 2}), "keys are not texts"),
    "an extension": (msgpack.packb({"x": msgpack.ExtType(42, b"")}), "extension 42"),
    "a longer extension": (msgpack.packb({"x": msgpack.ExtType(42, b"abc")}), "msgpack"),
    "a timestamp": (msgpack.packb({"x": msgpack.Timestamp(1)}), "msgpack"),
    "a text that is none": (b"\x81\xa1\xff\xc0", "msgpack"),
    "two messages": (msgpack.packb({}) * 2, "msgpack"),
    "no dictionary": (msgpack.packb([1]), "no dictionary"),
    "an array alone": (msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": "<f4", b"shape": [0]}), "no dict"),
    "nothing": (b"", "msgpack"),
    "JSON": (b'{"state": [1, 2]}', "msgpack"),
}
