"""Stores as earlier versions and others wrote them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numcodecs
import numpy as np
import zarr


def checksum(array: np.ndarray) -> str:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_format_1(path: Path, data: dict[str, np.ndarray], ends: list[int], seeds: list[int], meta: dict) -> None:
    """Compressed, a checksum for every array as a whole."""
    arrays = {f"data/{key}": array for key, array in data.items()}
    arrays |= {"meta/episode_ends": np.array(ends), "meta/seeds": np.array(seeds)}
    group = zarr.create_group(path, zarr_format=2)
    sums = {name: checksum(array) for name, array in arrays.items()}
    group.attrs.update({**meta, "format": 1, "checksums": sums})
    _fill(group, arrays)


def write_dp3(path: Path, data: dict[str, np.ndarray], ends: list[int]) -> None:
    """No metadata, no checksums."""
    arrays = {f"data/{key}": array for key, array in data.items()} | {"meta/episode_ends": np.array(ends)}
    _fill(zarr.create_group(path, zarr_format=2), arrays)


def _fill(group: zarr.Group, arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        codec = numcodecs.Blosc("zstd", clevel=3, shuffle=numcodecs.Blosc.SHUFFLE)
        chunks = (min(len(array), 3), *array.shape[1:])
        target = group.create_array(name, shape=array.shape, dtype=array.dtype, chunks=chunks, compressors=codec)
        target[...] = array
