"""Damaged model files are loaded and applied: what comes of it is numbers, or one sentence."""

from __future__ import annotations

import io
import json
import resource
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzz.absurd import absurd
from fuzz.damage import damage
from fuzz.files import MEMORY
from jointsparse import GreedySelector, SelectFeatures, load_model, save_model
from jointsparse.cli.commands.transform import applied
from jointsparse.cli.errors import CommandError
from jointsparse.io import Table
from jointsparse.methods.registry import methods
from jointsparse.persistence import ModelError

N_MODELS = 4
# What a schema could say instead: other types, other loaders, wrong values.
ODD = ("os", "system", "builtins", "eval", "exec", "getattr", "numpy", "ndarray", "matrix", "fit")
ODD += ("sklearn.pipeline", "Pipeline", "MethodNode", "FunctionNode", "TypeNode", "ObjectNode")
ODD += ("ReduceNode", "PartialNode", "CachedNode", "OperatorFuncNode", "BytesNode", "", "../x.npy")
ODD += (None, True, -1, 0, 10**30, 1e308, [], {}, "9" * 9999)
NAMES = ["a", "b b", "c,c", "d", "é", "f"]


def prepare() -> None:
    """Make the good models, which imports the methods, and limit the memory."""
    for number in range(N_MODELS):
        _good(number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def case(number: int) -> str:
    """Run one case and return what happened: "read", "refused" or a fault in words."""
    rng = np.random.default_rng(number)
    content = _damaged(_good(int(rng.integers(N_MODELS))), rng)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.skops"
        path.write_bytes(content)
        try:
            model = load_model(path)
            table = Table(_data(), list(NAMES))
            result, _ = applied(
                model, table, "table.csv", scaled=bool(rng.integers(2)), partial=False
            )
        except (ModelError, CommandError) as error:
            sentence = str(error)
            return "refused" if len(sentence) < 2000 else f"not a sentence: {sentence[:2000]!r}"
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
    if result.values.ndim != 2 or len(result.names) != result.values.shape[1]:
        return f"{len(result.names)} names for an array of shape {result.values.shape}"
    return "read"


def _data() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((20, len(NAMES)))


@cache
def _good(number: int) -> bytes:
    """Return the bytes of a good model."""
    made = methods()
    model = (
        lambda: GreedySelector(n_features_to_select=2),
        lambda: make_pipeline(StandardScaler(), made["spca-psd"].make(n_features_to_select=3)),
        lambda: SelectFeatures(made["spca"].make(n_components=2), n_features_to_select=2),
        lambda: made["spca"].make(n_components=2),
    )[number]()
    model.fit(_data())
    first = model[0] if hasattr(model, "steps") else model
    first.feature_names_in_ = np.array(NAMES, dtype=object)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        save_model(model, path)
        return path.read_bytes()


def _damaged(good: bytes, rng: np.random.Generator) -> bytes:
    """Damage the archive, or, behind the packing, one of its parts."""
    if rng.random() < 0.2:
        return damage(good, rng)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    chosen = list(parts)[int(rng.integers(len(parts)))]
    if rng.random() < 0.5:
        chosen = "schema.json"
        if rng.random() < 0.6:
            parts[chosen] = _odd_schema(parts[chosen], rng)
            return _packed(parts)
    absurd_array = chosen.endswith(".npy") and rng.random() < 0.5
    parts[chosen] = absurd(".npy", rng) if absurd_array else damage(parts[chosen], rng)
    return _packed(parts)


def _odd_schema(schema: bytes, rng: np.random.Generator) -> bytes:
    """Put something else in the place of one to three values of a model."""
    tree = json.loads(schema)
    for _ in range(int(rng.integers(1, 4))):
        node = tree
        while True:
            places = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not places:
                break
            place = places[int(rng.integers(len(places)))]
            inside = node[place]
            if isinstance(inside, dict | list) and rng.random() < 0.9:
                node = inside
                continue
            node[place] = ODD[int(rng.integers(len(ODD)))]
            break
    return json.dumps(tree).encode()


def _packed(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()
