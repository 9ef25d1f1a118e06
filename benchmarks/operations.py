"""A guard against growing costs: operations are counted, not seconds.

    python -m benchmarks.operations            compare with benchmarks/operations.json
    python -m benchmarks.operations --accept   store what is counted now

Each of some small fixed problems is solved once. Counted are calls of the expensive functions of
``numpy.linalg``, ``scipy.linalg`` and LAPACK, the multiplications in the package's own matrix
products, iterations, and the bytes that tracemalloc sees at the peak. A count that grows by more
than a tenth fails, with the sentence that says how to accept it; the clock of a busy machine plays
no part.

The products are counted by reading the package's sources in another way: while this module is at
work, ``a @ b`` in them is compiled to a call that counts.
"""

import ast
import functools
import importlib.abc
import importlib.machinery
import json
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.linalg.lapack

STORED = Path(__file__).with_name("operations.json")
ALLOWED = 1.10  # a count may grow by this factor
ROOM = {"peak bytes": 50_000}  # absolute: interpreters differ in small objects
FUNCTIONS = ("eigh", "eigvalsh", "svd", "solve", "cholesky", "qr", "lstsq", "inv", "cho_factor")
FUNCTIONS += ("lu_factor", "dgesv", "dpotrf", "dpotri", "dposv", "dgesdd")
COUNTER = "__counted_product__"
counts: dict[str, float] = {}


def count(what, by=1):
    counts[what] = counts.get(what, 0) + by


def counted_product(a, b):
    result = a @ b
    if hasattr(a, "shape") and hasattr(b, "shape") and len(a.shape) and len(b.shape):
        count("multiplications", float(a.shape[-1]) * float(np.size(result)))
    return result


class _Products(ast.NodeTransformer):
    def visit_BinOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        call = ast.Call(ast.Name(COUNTER, ast.Load()), [node.left, node.right], [])
        return ast.copy_location(call, node)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path), self.path)  # never from a cache

    def source_to_code(self, data, path, *, _optimize=-1):
        tree = _Products().visit(ast.parse(data))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def exec_module(self, module):
        setattr(module, COUNTER, counted_product)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] != "jointsparse":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install():
    """Make the library count; it must not have been imported before."""
    if "jointsparse" in sys.modules:
        raise RuntimeError("jointsparse is imported already: count in a process of its own")
    sys.meta_path.insert(0, _Finder())
    for module in (np.linalg, scipy.linalg, scipy.linalg.lapack):
        for name in FUNCTIONS:
            function = getattr(module, name, None)
            if function is not None:
                setattr(module, name, _counting(name, function))


def _counting(name, function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        count(name)
        return function(*args, **kwargs)

    return call


def data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, : p // 4] += 2 * rng.standard_normal((n, 3)) @ rng.standard_normal((3, p // 4))
    return X - X.mean(axis=0)


def problems():
    """Return {name: (estimator, X)}: narrow and wide, one for every kind of solver."""
    import jointsparse as js

    narrow, wide = data(120, 40), data(30, 300)
    classes = np.arange(30) % 3
    support = {"n_features_to_select": "support"}
    return {
        "SPCA-PSD, narrow": (js.SPCAPSD(**support), narrow),
        "SPCA-PSD, wide": (js.SPCAPSD(**support), wide),
        "SPCA-PSD, published": (js.SPCAPSD(solver="published", **support), narrow),
        "CSPCA-PSD": (js.CSPCA(tol=1e-3, **support), narrow),
        "AW-SPCA-PSD": (js.AWSPCA(tol=1e-3, **support), narrow),
        "greedy, narrow": (js.GreedySelector(n_features_to_select=10), narrow),
        "greedy, wide": (js.GreedySelector(n_features_to_select=10), wide),
        "SPCA, narrow": (js.SPCA(n_components=2), narrow),
        "SPCA, wide": (js.SPCA(n_components=2), wide),
        "dictionary": (js.DictionarySPCA(n_components=3), narrow),
        "JSPCA": (js.JSPCA(n_components=2, loss="frobenius"), narrow),
        "FSSL": (js.FSSL(graph="lda"), wide, classes),
        "robust PCA": (js.RobustPCA(), data(40, 20)),
        "Laplacian score": (js.LaplacianScore(**support), narrow),
        "UDFS": (js.UDFS(n_clusters=3, **support), narrow),
    }


def measure():
    """Return {problem: {what: count}}."""
    from threadpoolctl import threadpool_limits

    found = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (model, *arrays) in problems().items():
            model.fit(*arrays)  # once before: imports and caches are not its cost
            counts.clear()
            tracemalloc.start()
            model.fit(*arrays)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            peak = round(peak, -4)  # below that it is chance
            found[name] = {**counts, "iterations": int(model.n_iter_), "peak bytes": peak}
    return found


def growths(stored, found):
    """Return a sentence for every count that grew by more than is allowed."""
    sentences = []
    for problem, now in found.items():
        before = stored.get(problem)
        if before is None:
            sentences.append(f"{problem}: not stored yet")
            continue
        for what, value in sorted(now.items()):
            old = before.get(what, 0)
            if value > ALLOWED * old + ROOM.get(what, 0):
                sentences.append(f"{problem}: {what} grew from {old:.0f} to {value:.0f}")
    gone = sorted(set(stored) - set(found))
    return sentences + [f"{problem}: stored, but no longer counted" for problem in gone]


def main(words):
    install()
    found = measure()
    if "--accept" in words:
        text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
        STORED.write_text(text + "\n", encoding="utf-8")
        print(f"stored the counts of {len(found)} problems in {STORED.name}")
        return 0
    sentences = growths(json.loads(STORED.read_text(encoding="utf-8")), found)
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    if sentences:
        print(
            "Costs grew. If that is right, say why in the commit, and store the new counts with "
            "python -m benchmarks.operations --accept",
            file=sys.stderr,
        )
        return 1
    print(f"no cost of {len(found)} problems grew by more than {ALLOWED - 1:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
