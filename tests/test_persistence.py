"""Models survive the way through a file, and a file cannot run anything."""

import json
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD, GreedySelector, SelectFeatures, load_model, registry, save_model
from jointsparse.persistence import ModelError


@pytest.fixture(scope="module", name="X")
def samples():
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8)) + 0.2 * rng.standard_normal(
        (40, 8)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(registry.methods()))
def test_every_method_transforms_the_same_after_a_round_trip(name, X, tmp_path):
    method = registry.methods()[name]
    model = make_pipeline(StandardScaler(), method.make()).fit(X)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert repr(loaded) == repr(model)
    selector = SelectFeatures(method.make(), n_features_to_select=3).fit(X)
    selector.selection_report(X)
    save_model(selector, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.transform(X), selector.transform(X))
    np.testing.assert_array_equal(loaded.ranking_, selector.ranking_)


def test_the_file_has_neither_the_samples_nor_the_state_of_the_solver(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 500)) * np.linspace(1, 3, 500)
    model = SPCAPSD(warm_start=True, n_features_to_select=5, tol=1e-2).fit(X)
    save_model(model, tmp_path / "model.skops")
    with zipfile.ZipFile(tmp_path / "model.skops") as archive:
        sizes = [entry.file_size for entry in archive.infolist()]
    assert max(sizes) < 8 * 500 * 30  # smaller than the samples
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.feature_scores_, model.feature_scores_)
    loaded.fit(X)  # and it can be fitted again


def test_report_and_names_survive(tmp_path):
    import pandas as pd

    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.standard_normal((30, 4)), columns=["a", "b", "<script>", "=cmd()"])
    model = GreedySelector(n_features_to_select=2).fit(frame)
    report = str(model.selection_report_)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert str(loaded.selection_report_) == report
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


def test_sparse_data(tmp_path):
    X = sp.random_array((30, 10), density=0.4, rng=np.random.default_rng(0), format="csr")
    model = make_pipeline(StandardScaler(with_mean=False), GreedySelector(n_features_to_select=3))
    model.fit(X)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert np.all(loaded.transform(X).toarray() == model.transform(X).toarray())


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was run",))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_refused(tmp_path, protocol):
    path = tmp_path / "model.skops"
    path.write_bytes(pickle.dumps(Bomb(), protocol=protocol))
    with pytest.raises(ModelError, match="was not loaded") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def _with_class(source, target, module, name):
    """Copy a skops file with the class of its outermost object replaced."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as changed:
        for entry in archive.namelist():
            content = archive.read(entry)
            if entry == "schema.json":
                schema = json.loads(content)
                schema["__module__"], schema["__class__"] = module, name
                content = json.dumps(schema).encode()
            changed.writestr(entry, content)


def test_a_foreign_type_is_refused_before_its_module_is_imported(tmp_path, monkeypatch, X):
    (tmp_path / "canary_of_this_test.py").write_text("class Evil:\n    pass\nraise SystemExit(7)\n")
    monkeypatch.syspath_prepend(tmp_path)
    save_model(GreedySelector().fit(X), tmp_path / "good.skops")
    _with_class(tmp_path / "good.skops", tmp_path / "evil.skops", "canary_of_this_test", "Evil")
    with pytest.raises(ModelError, match=r"evil.skops was not loaded: .*canary_of_this_test.Evil"):
        load_model(tmp_path / "evil.skops")
    assert "canary_of_this_test" not in sys.modules
    for module, name in (("os", "system"), ("builtins", "eval"), ("jointsparse.io", "write_rows")):
        _with_class(tmp_path / "good.skops", tmp_path / "evil.skops", module, name)
        with pytest.raises(ModelError, match=f"{module}.{name}"):
            load_model(tmp_path / "evil.skops")


class Foreign(BaseEstimator):
    pass


def test_what_cannot_be_loaded_again_is_not_saved(tmp_path, X):
    with pytest.raises(ModelError, match="Foreign"):
        save_model(Foreign(), tmp_path / "model.skops")
    with pytest.raises(ModelError, match="only estimators"):
        save_model({"alpha": 1}, tmp_path / "model.skops")
    with pytest.raises(ModelError, match=r"must end in that"):
        save_model(GreedySelector().fit(X), tmp_path / "model.pkl")
    assert list(tmp_path.iterdir()) == []


def test_damaged_and_missing_files(tmp_path, X):
    import skops.io

    path = tmp_path / "model.skops"
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(path)
    path.write_text("no zip")
    with pytest.raises(ModelError, match="not a skops file"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "{}")
    with pytest.raises(ModelError, match="damaged or was saved by another version"):
        load_model(path)
    skops.io.dump({"a": 1}, path)
    with pytest.raises(ModelError, match="holds no model but dict"):
        load_model(path)
    save_model(GreedySelector().fit(X), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError):
        load_model(path)


BEFORE = Path(__file__).with_name("saved_by_0_1")  # one pipeline of every method, and what it gave


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted(BEFORE.glob("*.skops")), ids=lambda path: path.stem)
def test_models_that_version_0_1_saved_still_work(path):
    known = np.load(BEFORE / "transformed.npz")
    loaded = load_model(path)
    assert path.stem in registry.methods()
    np.testing.assert_allclose(loaded.transform(known["X"]), known[path.stem], rtol=1e-9, atol=1e-9)
    assert loaded[-1].get_params().keys() == type(loaded[-1])().get_params().keys()
    loaded.fit(known["X"])  # with its own parameters, and the defaults of those that are new


def test_a_model_of_every_method_was_saved_before():
    saved = {path.stem for path in BEFORE.glob("*.skops")}
    assert len(saved) >= 16
