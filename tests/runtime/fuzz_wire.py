"""A fuzz target for the decoder: hostile messages by the hundred thousand, from a seed.

    python tests/runtime/fuzz_wire.py 100000 [SEED]

`target` takes any bytes and fails if the decoder does anything but give a dictionary of plain values or refuse.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np

from mgp.errors import MessageError
from mgp.runtime.wire import DTYPES, pack, unpack

# what code that runs would have to do; see `sys.audit`
FORBIDDEN = ("exec", "compile", "import", "pickle", "marshal", "os.", "subprocess", "open", "socket", "ctypes", "code.")
_state: dict[str, Any] = {"watching": False, "seen": []}


def watch() -> None:
    """Audit hooks cannot be taken away again, so that this one is there once and sleeps between messages."""
    if "hook" not in _state:
        _state["hook"] = lambda event, _: (
            _state["seen"].append(event) if _state["watching"] and event.startswith(FORBIDDEN) else None
        )
        sys.addaudithook(_state["hook"])


def target(data: bytes) -> bool:
    """Whether it was decoded."""
    _state["watching"] = True
    try:
        message = unpack(data)
    except MessageError as error:
        if len(str(error)) > 400:
            raise
        return False
    finally:
        _state["watching"] = False
    assert isinstance(message, dict)
    plain(message)
    return True


def plain(value: Any) -> None:
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            plain(one)
    elif isinstance(value, np.ndarray | np.generic):
        assert value.dtype.kind in "biuf"
        assert value.dtype.isnative
        value.sum(dtype=float)  # reads every byte
    else:
        assert value is None or type(value) in (bool, int, float, str, bytes)


def messages(count: int, seed: int = 0) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.choice((_noise, _changed, _changed, _strange_array, _strange_tree, _good))(chance)


def _observation(chance: random.Random) -> dict[str, Any]:
    shape = [chance.randrange(5) for _ in range(chance.randrange(4))]
    dtype = chance.choice([dtype for dtype in DTYPES.values() if dtype.kind != "b"])
    mgp = {"step": chance.randrange(300), "reset": chance.random() < 0.5, "time": chance.random()}
    return {"state": np.ones(shape, dtype), "prompt": "close the door", "mgp": mgp, "scalar": np.float32(0.5)}


def _noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(64))


def _good(chance: random.Random) -> bytes:
    return pack(_observation(chance))


def _changed(chance: random.Random) -> bytes:
    """Bits turned, parts cut out, doubled or moved."""
    data = bytearray(pack(_observation(chance)))
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = data[chance.randrange(len(data) + 1) :][: chance.randrange(16)]
        else:
            data[at : at + chance.randrange(8)] = chance.randbytes(chance.randrange(8))
    return bytes(data)


def _strange_array(chance: random.Random) -> bytes:
    """Fields of an array that do not fit each other, or are not what they should be."""
    anything = (
        None,
        True,
        -1,
        2**63,
        2**64 - 1,
        1e308,
        "",
        "x" * 300,
        b"",
        b"\x80\x04c",
        [],
        {},
        [[]],
        [0],
        [2**62] * 9,
    )
    dtypes = (*DTYPES, "|O", "|V8", "|S4", "<U4", "<c8", "<M8[s]", "<f16", "O", "object", "f4,f4", "(2,)f4", "<f", "..")
    array: dict[Any, Any] = {
        b"__ndarray__": True,
        b"data": chance.randbytes(chance.choice((0, 1, 4, 8, 32))),
        b"dtype": chance.choice(dtypes),
        b"shape": [chance.choice((0, 1, 2, 4, 8, 2**31, 2**62, -1)) for _ in range(chance.randrange(4))],
    }
    if chance.random() < 0.2:
        array[b"__npgeneric__"] = array.pop(b"__ndarray__")
    if chance.random() < 0.5:
        array[chance.choice(list(array))] = chance.choice(anything)
    if chance.random() < 0.1:
        del array[chance.choice(list(array))]
    return msgpack.packb({"state": array})


def _strange_tree(chance: random.Random) -> bytes:
    """Deep, wide, long, keys of any kind, extensions, lengths that promise more than there is."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.choice((b"\x91", b"\x81\xa1a", b"\x81\xc4\x01b")) * chance.randrange(1, 3000)
    if kind == 1:
        return b"\xdc" + (2000).to_bytes(2, "big") + b"\x90" * 2000
    if kind == 2:
        return chance.choice((b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9")) + chance.randbytes(8)
    if kind == 3:
        return msgpack.packb({chance.choice((1, None, 1.5, b"b", True, "s")): chance.choice(([], {}, "x"))})
    if kind == 4:
        return msgpack.packb({"a": msgpack.ExtType(chance.randrange(128), chance.randbytes(chance.randrange(20)))})
    return msgpack.packb({"a": msgpack.Timestamp(chance.randrange(2**32)), "b": [{}] * chance.randrange(300)})


def fuzz(count: int, seed: int = 0) -> int:
    """How many were decoded. Nothing may have been run."""
    watch()
    _state["seen"].clear()
    decoded = sum(target(data) for data in messages(count, seed))
    assert not _state["seen"], f"the decoder did {sorted(set(_state['seen']))}"
    return decoded


if __name__ == "__main__":
    total, start = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(f"{fuzz(total, start)} of {total} messages were decoded, the others refused")
