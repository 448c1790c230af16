"""Messages: msgpack, with arrays and numpy scalars written as openpi's clients and servers write them.

    array    {b"__ndarray__": True, b"data": bytes, b"dtype": "<f4", b"shape": [512, 3]}
    scalar   {b"__npgeneric__": True, b"data": 0.5, b"dtype": "<f8"}

What comes in may be hostile. So: no objects but numbers, texts, bytes, arrays, lists and dictionaries with texts as
keys; of arrays the dtypes of `DTYPES` with exactly as many bytes as their shape needs; few containers, of few elements,
not deep. A message that breaks a rule is a `MessageError`, whatever it breaks. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from mgp.errors import MessageError

_NAMES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
DTYPES = {np.dtype(order + name).str: np.dtype(order + name) for name in _NAMES for order in "<>"}  # "|u1", "<f4", ...
CONTAINERS = 512  # dictionaries and lists of a message; an array is two
ELEMENTS = 256  # of each of them
TEXT = 4096  # bytes of a text
AXES = 8  # of an array
DEPTH = 8  # dictionaries and lists in each other
MESSAGE = 16 * 2**20  # bytes, unless told otherwise

_ARRAY = {b"__ndarray__", b"data", b"dtype", b"shape"}
_SCALAR = {b"__npgeneric__", b"data", b"dtype"}


def pack(message: Mapping[str, Any]) -> bytes:
    try:
        return msgpack.packb(message, default=_as_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageError(f"cannot be sent ({error}): send numbers, texts and numeric arrays") from error


def unpack(data: bytes | str, limit: int = MESSAGE) -> dict[str, Any]:
    """The dictionary that a message is. Arrays are read-only, in this machine's byte order."""
    if isinstance(data, str):
        raise MessageError("a text where a binary msgpack message belongs: use a client of openpi's protocol")
    if len(data) > limit:
        raise MessageError(f"{len(data)} bytes, at most {limit}: send smaller images or clouds")
    hooks = _Hooks()
    try:
        message = msgpack.unpackb(
            data,
            object_hook=hooks.dictionary,
            list_hook=hooks.list,
            ext_hook=_no_extension,
            strict_map_key=True,  # texts and bytes only
            max_str_len=TEXT,
            max_bin_len=limit,
            max_array_len=ELEMENTS,
            max_map_len=ELEMENTS,
            max_ext_len=0,  # timestamps too are extensions
        )
    except MessageError:
        raise
    except Exception as error:  # msgpack has many kinds; none of them may reach the client, or end the server
        why = str(error)[:80] if type(error) is ValueError else type(error).__name__  # "300 exceeds max_array_len(256)"
        raise MessageError(f"no msgpack of this protocol ({why})") from error
    _check(message, DEPTH)
    if not isinstance(message, dict):
        raise MessageError("is no dictionary: send an observation by its keys")
    return message


def _as_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.str not in DTYPES:
            raise TypeError(f"an array of dtype {value.dtype}")
        if isinstance(value, np.ndarray):
            array = {b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
            return {b"__ndarray__": True, **array}
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"a {type(value).__name__}")


class _Hooks:
    """Called with each dictionary and list as soon as it is complete; they are counted while the message is read."""

    def __init__(self) -> None:
        self.left = CONTAINERS

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise MessageError(f"more than {CONTAINERS} dictionaries and lists: send numbers as arrays")

    def list(self, values: list) -> list:
        self._count()
        return values

    def dictionary(self, values: dict) -> Any:
        self._count()
        if b"__ndarray__" in values:
            return _array(values)
        if b"__npgeneric__" in values:
            return _scalar(values)
        return values


def _array(values: dict) -> np.ndarray:
    dtype = _dtype(values, _ARRAY, b"__ndarray__")
    data, shape = values[b"data"], values[b"shape"]
    if not isinstance(data, bytes):
        raise MessageError("an array whose data are not bytes")
    if not isinstance(shape, list) or len(shape) > AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise MessageError(f"an array whose shape is no list of at most {AXES} sizes")
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(data):
        raise MessageError(f"an array of {len(data)} bytes, its shape and dtype {dtype} need {needed}")
    try:
        array = np.frombuffer(data, dtype).reshape(shape)
    except (ValueError, OverflowError) as error:  # no bytes at all, and sizes that numpy cannot hold
        raise MessageError("an array whose shape is too large") from error
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _scalar(values: dict) -> np.generic:
    dtype = _dtype(values, _SCALAR, b"__npgeneric__")
    if not isinstance(values[b"data"], bool | int | float):
        raise MessageError("a scalar that is no number")
    try:
        with np.errstate(over="raise"):
            return dtype.newbyteorder("=").type(values[b"data"])
    except (OverflowError, FloatingPointError) as error:
        raise MessageError(f"a scalar that dtype {dtype} cannot hold") from error


def _dtype(values: dict, keys: set[bytes], mark: bytes) -> np.dtype:
    if set(values) != keys or values[mark] is not True:
        raise MessageError(f"an array or scalar must have the keys {', '.join(sorted(key.decode() for key in keys))}")
    name = values[b"dtype"]
    if not isinstance(name, str) or name not in DTYPES:
        raise MessageError(f"an array of dtype {str(name)[:16]!r}: only plain numbers are taken ({', '.join(DTYPES)})")
    return DTYPES[name]


def _check(value: Any, depth: int) -> None:
    """What the hooks cannot see: how deep it is, and bytes as keys outside of arrays."""
    if not isinstance(value, dict | list):
        return
    if depth == 0:
        raise MessageError(f"dictionaries and lists more than {DEPTH} deep")
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise MessageError("a dictionary whose keys are not texts")
    for one in value.values() if isinstance(value, dict) else value:
        _check(one, depth - 1)


def _no_extension(code: int, data: bytes) -> Any:
    raise MessageError(f"msgpack extension {code}: only plain values are taken")
