"""Sets and proofs of tensors: ``python -m benchmarks.gpu_sets [--device cuda]``.

The same answers as of NumPy, from samples on a device: moments and the steps of the joint bound are
computed there, exchanges and search on the host. Prints the seconds of both. Steps of many features
are rounded to single precision, so that their bounds agree to fewer digits.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.common import verdict


def fits(X, search):
    from jointsparse import SubsetSelector, certify_set

    start = time.perf_counter()
    # Nodes are counted, not seconds: the same number gives the same bound.
    model = SubsetSelector(
        n_features_to_select=5, search=search, time_limit=None, max_nodes=200
    ).fit(X)
    features = np.flatnonzero(model.support_)
    proof = certify_set(X, features, time_limit=None, max_nodes=50)
    return model, proof, time.perf_counter() - start


def main():
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((100, 8)) @ rng.standard_normal((8, 3000))
    tables = {"breast cancer": load_breast_cancer().data, "digits": load_digits().data}
    tables["100 × 3000"] = wide + rng.standard_normal(wide.shape)
    tall = rng.standard_normal((2000, 20)) @ rng.standard_normal((20, 256))
    tables["2000 × 256"] = tall + 3 * rng.standard_normal(tall.shape)
    for name, X in tables.items():
        X = X[:, X.std(axis=0) > 0]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        tensor = torch.as_tensor(X, device=device)
        for search in ("greedy", "swap", "exact"):
            one, one_proof, host = fits(X, search)
            other, other_proof, there = fits(tensor, search)
            same = np.array_equal(one.support_, other.support_)
            pairs = [(one.set_value_, other.set_value_), (one.set_bound_, other.set_bound_)]
            pairs.append((one_proof.bound, other_proof.bound))
            far = max(abs(a - b) for a, b in pairs)
            near = 1e-4 if X.shape[1] == 256 else 1e-9
            print(
                f"{name}, {search}: {host:.2f} s from NumPy, {there:.2f} s from {device}, "
                f"difference {far:.1e}: {verdict(same and far < near)}"
            )


if __name__ == "__main__":
    main()
