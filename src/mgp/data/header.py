"""The headers of arrays in a zarr (format 2) folder: read, checked and written without touching what they describe."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mgp.errors import DataError

CODECS = {"blosc", "zstd", "lz4", "zlib", "gzip", "bz2", "lzma"}  # compressors only: no filter may run code
REMEDY = "collect it again (mgp collect ... --force) or restore it from a copy"


@dataclass(frozen=True)
class Header:
    """What `.zarray` says of an array whose first axis is time."""

    shape: tuple[int, ...]  # (T, ...)
    chunks: tuple[int, ...]
    dtype: np.dtype
    plain: bool  # chunks are rows as they are in memory: not compressed, in C order, whole in all but the first axis

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def chunk_name(self, chunk: int) -> str:
        """The file of a chunk of whole rows."""
        return ".".join([str(chunk), *["0"] * (len(self.shape) - 1)])

    @classmethod
    def read(cls, folder: Path) -> Header:
        """Only arrays of numbers, and only codecs that cannot run code."""
        try:
            fields = json.loads((folder / ".zarray").read_text())
            compressor, filters = fields["compressor"], fields.get("filters")
            codec = (compressor or {"id": "zlib"})["id"]
            dtype = np.dtype(fields["dtype"])
            shape, chunks = tuple(map(int, fields["shape"])), tuple(map(int, fields["chunks"]))
            if not shape or len(shape) != len(chunks) or min(shape) < 0 or min(chunks) < 1:
                raise ValueError(f"shape {shape}, chunks {chunks}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder}/.zarray is damaged ({error}); {REMEDY}") from error
        if dtype.kind not in "fiub" or codec not in CODECS or filters:
            raise DataError(
                f"{folder} has dtype {dtype}, compressor {codec} and filters {filters}; only plain numbers with a "
                f"compressor of {', '.join(sorted(CODECS))} are read: convert it"
            )
        plain = compressor is None and fields.get("order", "C") == "C" and chunks[1:] == shape[1:]
        return cls(shape, chunks, dtype, plain and fields.get("dimension_separator", ".") == ".")

    def write(self, folder: Path) -> None:
        fields = {
            "chunks": self.chunks,
            "compressor": None,
            "dimension_separator": ".",
            "dtype": self.dtype.str,
            "fill_value": 0,
            "filters": None,
            "order": "C",
            "shape": self.shape,
            "zarr_format": 2,
        }
        (folder / ".zarray").write_text(json.dumps(fields, indent=1))


def read_headers(path: Path, group: str) -> dict[str, Header]:
    """The arrays of a group by name, "data/cloud"."""
    found = {
        f"{group}/{file.parent.name}": Header.read(file.parent) for file in sorted(path.glob(f"{group}/*/.zarray"))
    }
    if not found:
        raise DataError(f"{path / group} has no arrays, so the store is incomplete or not one; {REMEDY}")
    return found


def read_attributes(path: Path) -> dict[str, Any]:
    """The metadata of a zarr group, {} if it has none."""
    try:
        if json.loads((path / ".zgroup").read_text())["zarr_format"] != 2:
            raise ValueError("its zarr_format is not 2")
        file = path / ".zattrs"
        return dict(json.loads(file.read_text())) if file.exists() else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a zarr (format 2) folder ({error}); {REMEDY}") from error


def write_group(path: Path, attributes: dict[str, Any] | None = None) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    if attributes is not None:
        (path / ".zattrs").write_text(json.dumps(attributes, indent=1, allow_nan=False))


def check_kind(where: str, key: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """What an array of a known kind must look like; any other key is free."""
    kind = key.split("_")[0]  # rgb_wrist is one of the cameras
    if dtype.kind not in "fiub":
        raise DataError(f"{where} must hold numbers, got {dtype}; convert it")
    if key in ("action", "state", "cloud") and dtype.kind != "f":
        raise DataError(f"{where} must hold floats, got {dtype}; convert it")
    if key in ("action", "state") and len(shape) != 2:
        raise DataError(f"{where} must be (steps, dimensions), got {shape}; reshape it")
    if key == "cloud" and (len(shape) != 3 or shape[2] < 3):
        raise DataError(f"{where} must be (steps, points, 3 or more), got {shape}; reshape it")
    if kind == "rgb" and (len(shape) != 4 or dtype.kind not in "uf"):
        raise DataError(f"{where} must be (steps, height, width, 3) in uint8, got {shape} in {dtype}; convert it")
    if kind == "depth" and len(shape) not in (3, 4):
        raise DataError(f"{where} must be (steps, height, width), got {shape}; reshape it")


def check_finite(where: str, array: np.ndarray, first: int) -> None:
    """`first` is the step of the array's first row."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        step = first + int(np.argwhere(~np.isfinite(array))[0, 0])
        raise DataError(f"{where} is not finite at step {step}; drop that episode or collect again")
