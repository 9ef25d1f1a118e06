"""Model files made to do harm: refused, and nothing of theirs runs."""

import io
import json
import os
import pickle
import zipfile

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
    refused(model, "takes 2.", "GB of memory, and 500 MB are free")


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
