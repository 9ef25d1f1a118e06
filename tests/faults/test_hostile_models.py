"""Model files made to do harm: refused, and nothing of theirs runs."""

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from fuzz.models import case
from jointsparse import GreedySelector, load_model, save_model
from jointsparse.persistence import ModelError


@pytest.fixture
def model(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 4))
    save_model(GreedySelector(n_features_to_select=2).fit(X), tmp_path / "model.skops")
    return tmp_path / "model.skops"


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def refused(path, *words):
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


class Harm:
    def __reduce__(self):
        return os.system, ("touch harm",)


def test_pickles_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in (2, 4, 5):
        (tmp_path / "model.skops").write_bytes(pickle.dumps(Harm(), protocol))
        refused(tmp_path / "model.skops", "a pickle, which could run any program")
    assert not (tmp_path / "harm").exists()


def test_a_pickle_in_an_array_is_not_opened(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = parts_of(model)
    array = io.BytesIO()
    np.save(array, np.array([Harm()], dtype=object), allow_pickle=True)
    for name in parts:
        if name.endswith(".npy"):
            parts[name] = array.getvalue()
    write(model, parts)
    refused(model, "damaged")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("builtins", "eval"), ("subprocess", "Popen")]
)
def test_other_types_are_named_and_refused(model, module, name):
    parts = parts_of(model)
    schema = json.loads(parts["schema.json"])
    schema |= {"__module__": module, "__class__": name, "__loader__": "TypeNode"}
    parts["schema.json"] = json.dumps(schema).encode()
    write(model, parts)
    refused(model, f"{module}.{name}")


def arrays_in(node):
    if isinstance(node, dict):
        found = [node] if str(node.get("file", "")).endswith(".npy") else []
        return found + [array for child in node.values() for array in arrays_in(child)]
    return [array for child in node for array in arrays_in(child)] if isinstance(node, list) else []


def test_one_array_that_is_named_often(model, monkeypatch):
    """Ten megabytes that are referred to a hundred times take a gigabyte."""
    from jointsparse import persistence

    parts = parts_of(model)
    schema = json.loads(parts["schema.json"])
    array = arrays_in(schema)[0]
    content = io.BytesIO()
    np.save(content, np.zeros(10**7 // 8))
    parts[array["file"]] = content.getvalue()
    schema["more"] = [dict(array, __id__=number) for number in range(100)]
    parts["schema.json"] = json.dumps(schema).encode()
    write(model, parts)
    monkeypatch.setattr(persistence, "available_memory", lambda: 5 * 10**8)
    refused(model, "takes 3.5", "GB of memory, and 500 MB are free")


def test_a_model_that_memory_holds_but_three_times(model, monkeypatch):
    """What is read is there as parts, as an archive and as a model, all at the same time."""
    from jointsparse import persistence

    parts = parts_of(model)
    content = io.BytesIO()
    np.save(content, np.zeros(10**7 // 8))
    parts[next(name for name in parts if name.endswith(".npy"))] = content.getvalue()
    write(model, parts)
    monkeypatch.setattr(persistence, "available_memory", lambda: 3 * 10**7)
    refused(model, "of memory, and 30 MB are free")


def lying(path, parts, name, tail, says=None):
    """Write an archive one of whose members goes on after the size that it says to have."""
    write(path, {**parts, name: parts[name] + tail})
    content = bytearray(path.read_bytes())
    size = len(parts[name]) if says is None else says
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename == name:
                local = entry.header_offset
    central = content.index(name.encode(), archive.start_dir) - 46
    for at, first in ((local, 14), (central, 16)):
        crc = zlib.crc32(parts[name])  # of what the size lets through: that passes as right
        content[at + first : at + first + 4] = struct.pack("<I", crc)
        content[at + first + 8 : at + first + 12] = struct.pack("<I", size)
    path.write_bytes(content)


def peak_of(path):
    tracemalloc.start()
    try:
        refused(path, "damaged")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["schema.json", "array"])
def test_a_part_that_lies_about_its_size(model, name):
    """A few kilobytes that inflate to 64 megabytes, and say to be a hundred bytes."""
    parts = parts_of(model)
    name = name if name in parts else next(part for part in parts if part.endswith(".npy"))
    lying(model, parts, name, bytes(2**26))
    assert model.stat().st_size < 10**6
    assert peak_of(model) < 10**7


def test_a_part_that_says_to_be_longer_than_it_is(model):
    parts = parts_of(model)
    name = next(part for part in parts if part.endswith(".npy"))
    lying(model, parts, name, b"", says=10**6)
    refused(model, "damaged", "not the 1000000 bytes it says")
    lying(model, parts, name, b"", says=2**32 - 2)
    refused(model)


def test_a_bomb_in_an_archive_within_the_model(tmp_path):
    """A sparse matrix is an archive itself."""
    from scipy import sparse

    from jointsparse import persistence

    model = GreedySelector(n_features_to_select=2).fit(np.eye(4) + np.arange(4))
    model.kept_ = sparse.csr_array(np.eye(3))
    path = tmp_path / "model.skops"
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).kept_.toarray(), np.eye(3))
    parts = parts_of(path)
    name = next(part for part in parts if part.endswith(".npz"))
    inner = tmp_path / "inner.npz"
    inner.write_bytes(parts[name])
    inside = parts_of(inner)
    lying(inner, inside, "data.npy", bytes(2**26))
    write(path, {**parts, name: inner.read_bytes()})
    assert peak_of(path) < 10**7
    write(inner, {**inside, "data.npy": inside["data.npy"] + bytes(2**26)})
    write(path, {**parts, name: inner.read_bytes()})
    usual = persistence.available_memory
    try:
        persistence.available_memory = lambda: 5 * 10**7
        refused(path, "of memory, and 50 MB are free")
    finally:
        persistence.available_memory = usual


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_packed_in_other_ways(model, packing):
    parts = parts_of(model)
    with zipfile.ZipFile(model, "w", packing) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    refused(model, "packed in an unusual way")


def test_an_encrypted_part(model):
    content = bytearray(model.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    model.write_bytes(content)
    refused(model, "encrypted")


def test_packed_models_are_read(model):
    write(model, parts_of(model))
    assert load_model(model).get_support().sum() == 2


def test_a_deep_schema(model):
    parts = parts_of(model)
    parts["schema.json"] = b"[" * 10**6
    write(model, parts)
    refused(model, "damaged")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.skops")
    refused(tmp_path / "model.skops", "device or a pipe")


def test_damaged_models():
    """A few of the cases of ``python -m fuzz --models``."""
    outcomes = {case(number) for number in range(25)}
    assert outcomes <= {"read", "refused"}
    assert "refused" in outcomes
