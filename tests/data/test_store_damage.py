"""What is missing, altered or not a store is refused by name."""

import json
import os
import pickle

import numpy as np
import pytest
import zarr
from toy_store import META, chunk, episodes

from mgp.data.store import EpisodeStore
from mgp.errors import DataError


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.write(tmp_path / "demos", episodes(), [4, 7], META)


def test_missing_key_is_named(store):
    with pytest.raises(DataError, match=r"no 'depth'.*action, cloud"):
        store.load("depth")


def test_missing_store_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no store at .*nowhere"):
        EpisodeStore.open(tmp_path / "nowhere")


@pytest.mark.parametrize("key", ["action", "cloud"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "empty"])
def test_a_file_of_another_size_is_refused_at_once(store, key, damage):
    file = chunk(store, key)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()  # zarr alone would read zeros here
    else:
        file.write_bytes({"truncated": content[: len(content) // 2], "empty": b""}[damage])
    with pytest.raises(DataError, match=f"data/{key}/.* (is missing|its header wants {len(content)}).*restore it"):
        EpisodeStore.open(store.path)


@pytest.mark.parametrize("key", ["action", "cloud", "rgb"])
def test_altered_rows_are_found_when_read_and_not_before(store, key):
    file = chunk(store, key)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)
    again = EpisodeStore.open(store.path)
    with pytest.raises(DataError, match=f"data/{key}/0.* does not match its checksum at steps 0 to 7.*restore it"):
        again.load(key)
    for other in set(again.keys) - {key}:
        again.load(other)


def test_a_damaged_header_or_checksum_is_found_when_read(store):
    header = store.path / "data/rgb/.zarray"
    good = header.read_text()
    wide = good.replace("\n  4,\n  4,\n  3\n", "\n  2,\n  8,\n  3\n")
    assert wide != good
    header.write_text(wide)
    with pytest.raises(DataError, match=r"rgb/.* does not match its checksum"):
        EpisodeStore.open(store.path).load("rgb")
    header.write_text(good)
    sums = store.path / "checksums/data/cloud/0"
    sums.write_bytes(sums.read_bytes() + bytes(4))
    with pytest.raises(DataError, match="checksums/data/cloud is damaged"):
        EpisodeStore.open(store.path).load("cloud")
    sums.unlink()
    with pytest.raises(DataError, match="checksums/data/cloud is damaged or missing"):
        EpisodeStore.open(store.path).load("cloud")


def test_damaged_bounds_are_refused(store):
    (store.path / "meta/seeds/0").write_bytes(np.array([4, 8]).tobytes())
    with pytest.raises(DataError, match="meta/seeds/0 does not match its checksum"):
        EpisodeStore.open(store.path)


@pytest.mark.parametrize("name", ["meta", "data", "data/action/.zarray", "meta/episode_ends/.zarray", ".zgroup"])
def test_half_a_store_is_refused(store, name):
    path = store.path / name
    path.rename(store.path.parent / "elsewhere")
    with pytest.raises(DataError):
        EpisodeStore.open(store.path)


def test_damaged_header_is_refused(store):
    (store.path / "data/action/.zarray").write_text("{")
    with pytest.raises(DataError, match="zarray is damaged"):
        EpisodeStore.open(store.path)


def test_other_format_is_refused(store):
    attributes = store.path / ".zattrs"
    attributes.write_text(json.dumps(json.loads(attributes.read_text()) | {"format": 99}))
    with pytest.raises(DataError, match="format 99"):
        EpisodeStore.open(store.path)


def test_nothing_is_unpickled(store):
    """A pickle in a chunk, and a header that asks for it to be run."""
    header = store.path / "data/action/.zarray"
    fields = json.loads(header.read_text())

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(store.path / "exploded"),)

    for change in ({"filters": [{"id": "pickle"}]}, {"dtype": "|O"}, {"compressor": {"id": "pickle"}}):
        header.write_text(json.dumps(fields | change))
        chunk(store, "action").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(DataError, match="only plain numbers"):
            EpisodeStore.open(store.path)
    assert not (store.path / "exploded").exists()


@pytest.mark.parametrize("ends", [[3, 8], [3, 6], [5, 3, 7], [0, 7]])
def test_wrong_ends_are_refused(tmp_path, ends):
    group = zarr.create_group(tmp_path / "bad.zarr", zarr_format=2)
    group.create_array("data/action", data=np.ones((7, 4), np.float32))
    group.create_array("meta/episode_ends", data=np.array(ends))
    with pytest.raises(DataError, match=r"episodes end at|increasing"):
        EpisodeStore.open(tmp_path / "bad.zarr")
