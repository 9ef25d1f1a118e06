"""Record the answers of the code that is importable now: ``python -m answers.record [PATTERN]``.

Run it in ``tests/``, with JOINTSPARSE_DATA set. Penalties are fractions of what empties the model
in the table below; they are turned into absolute numbers once, when a row is new, and stored: what
is recorded does not depend on defaults or on units of penalties. A pattern ("CSPCA*usps*") records
anew the rows whose name matches it; without one, all.
"""

import fnmatch
import json
import sys
from pathlib import Path

import numpy as np
from answers import judge, subjects
from answers.tables import FAMILIES, FROM_FOLDER, LABELS, TABLES, absent, family, table
from threadpoolctl import threadpool_limits

ANSWERS = Path(__file__).with_name("answers.json")
SIZES = (5, 10, 20)
SLIGHT = 1e-2  # of the largest score: features below may be zero in another solution as good
TALL = ("breast std", "wine std", "digits raw", "planted tall", "counts", "near constant")
ODD = ("means of 1e8", "duplicated columns")
WIDE = ("planted wide", "sparse wide")
CUTS = ("usps raw", "isolet raw", "yale raw", "colon raw", "tox171 raw")
ALL = (*TALL, *ODD, *WIDE, *CUTS)
UNITS = {  # of penalties that an estimator tells in absolute numbers, as ``alpha_``, …
    **dict.fromkeys(("SPCAPSD", "CSPCA"), ("alpha", "eta")),
    **dict.fromkeys(("AWSPCA", "SPCAFS", "UDFS", "SOGFS", "DictionarySPCA", "JSPCA"), ("alpha",)),
    "SPCA": ("alpha", "ridge"),
    "FSSL": ("mu",),
}
NEIGHBOURS = {"n_neighbors": 5}
LPP = {"graph": "lpp", "n_components": 3, **NEIGHBOURS}
PCA = {"graph": "pca", "n_components": 3}
EXACT = {"search": "exact", "target": "features", "time_limit": None, "max_nodes": 8000}
# (class, parameters with relative penalties, tables). Selectors keep ten features if not told.
MODELS = [
    *(
        ("SPCAPSD", {"alpha": alpha, "eta": eta}, ALL)
        for alpha, eta in ((0.02, 0.03), (0.1, 0.03), (0.4, 0.1), (0.003, 0.01))
    ),
    *(
        ("CSPCA", {"alpha": alpha, "eta": eta, "psd": True}, ALL)
        for alpha, eta in ((0.1, 0.03), (0.3, 0.1), (0.1, 0.0))
    ),
    *(
        ("CSPCA", {"alpha": alpha, "eta": eta, "psd": True}, (*TALL, *ODD, *WIDE))
        for alpha, eta in ((0.02, 0.03), (0.003, 0.0))
    ),
    ("CSPCA", {"alpha": 0.3, "eta": 0.3, "psd": False}, ALL),
    ("CSPCA", {"alpha": 0.1, "eta": 0.03, "psd": False}, ALL),
    ("CSPCA", {"alpha": 0.1, "eta": 0.0, "psd": False}, ALL),
    *(("AWSPCA", {"alpha": alpha, "psd": True}, ALL) for alpha in (0.1, 0.3)),
    *(("AWSPCA", {"alpha": alpha, "psd": True}, (*TALL, *ODD, *WIDE)) for alpha in (0.02, 0.003)),
    *(("AWSPCA", {"alpha": alpha, "psd": False}, ALL) for alpha in (0.3, 0.05)),
    *(("SPCAFS", {"alpha": 0.3, "p": p, "n_components": 5}, ALL) for p in (0.5, 1.0)),
    *(
        ("LaplacianScore", {"weights": weights, **NEIGHBOURS}, ALL)
        for weights in ("binary", "heat", "cosine")
    ),
    ("UDFS", {"alpha": 0.3, "n_clusters": 5, **NEIGHBOURS}, ALL),
    ("SOGFS", {"alpha": 0.3, "p": 0.5, "n_clusters": 5, "n_components": 4, **NEIGHBOURS}, TALL),
    ("RNE", {"ridge": 1e-3, **NEIGHBOURS}, ALL),
    ("MCFS", {"alpha": 0.1, "n_clusters": 5, **NEIGHBOURS}, ALL),
    *(("GreedySelector", {"target": target}, ALL) for target in ("patterns", "reconstruction")),
    ("GreedySelector", {"target": "clusters", "n_clusters": 4}, ALL),
    *(
        ("SubsetSelector", {"search": search, "target": "features"}, ALL)
        for search in ("swap", "greedy")
    ),
    ("SPCA", {"n_components": 3, "alpha": 0.1, "ridge": 1e-3}, ALL),
    ("SPCA", {"n_components": 3, "alpha": 0.5, "ridge": "inf"}, ALL),
    ("SPCA", {"n_components": 3, "n_nonzero": 5, "ridge": 1e-3}, ALL),
    ("SPCA", {"n_components": 3, "n_nonzero": 5, "ridge": "inf"}, ALL),
    *(("DictionarySPCA", {"n_components": 3, "alpha": alpha}, ALL) for alpha in (0.3, 0.1)),
    *(
        ("JSPCA", {"n_components": 3, "alpha": 0.3, "loss": loss}, ALL)
        for loss in ("samples", "features", "frobenius")
    ),
    *(("FSSL", {"mu": 10.0, "norm": norm, **LPP}, ALL) for norm in ("l21", "l11", "fro")),
    ("FSSL", {"mu": 10.0, "norm": "l21", **PCA}, ALL),
    ("FSSL", {"mu": 10.0, "norm": "l21", "graph": "lda"}, ("breast std", "wine std", "digits raw")),
    ("FSSL", {"constraint": "equality", "norm": "l21", **PCA}, (*TALL, *ODD, *WIDE)),
    ("FSSL", {"constraint": "equality", "norm": "l11", **LPP}, (*TALL, "planted wide")),
    ("KernelFSSL", {"mu": 10.0, "kernel": "rbf", "gamma": 0.01, **LPP}, (*TALL, *WIDE)),
    ("RobustPCA", {"alpha": 1.0}, ("gross errors", "duplicated columns", *TALL[:4], *WIDE)),
]
FIRST = {name: given for name, given, _ in reversed(MODELS) if name in subjects.SELECTORS}
MODELS += [  # sets of other sizes
    (name, {**given, "n_features_to_select": size}, ("breast std", "digits raw", "planted tall"))
    for name, given in FIRST.items()
    for size in (5, 20)
]
# Rows on which a simpler program failed: what it lacked, and how it failed.
GUARDS = [
    ("AWSPCA", {"alpha": 0.02, "psd": True}, "usps raw", "splitting alone: gap 3e-3"),
    ("AWSPCA", {"alpha": 0.02, "psd": True}, "digits raw", "no V - Z + Zᵀ: gap 5e-3"),
    ("AWSPCA", {"alpha": 0.02, "psd": True}, "diabetes std", "rounding by tr S: gap 1e-4"),
    ("AWSPCA", {"alpha": 0.003, "psd": True}, "diabetes std", "rounding by tr S: gap 9e-4"),
    ("AWSPCA", {"alpha": 0.003, "psd": True}, "near singular", "rounding by tr S"),
    ("AWSPCA", {"alpha": 0.02, "psd": True}, "fifteen factors", "dual point not as computed"),
    ("AWSPCA", {"alpha": 0.1, "psd": True}, "glioma raw", "three fixed shifts: gap 2e-4"),
    ("CSPCA", {"alpha": 0.1, "eta": 0.0, "psd": True}, "orlraws10p raw", "no both weights, p > n"),
    ("CSPCA", {"alpha": 0.003, "eta": 0.0, "psd": True}, "yale raw", "no both weights, p > n"),
    ("CSPCA", {"alpha": 0.1, "eta": 0.03, "psd": True}, "glioma raw", "basis not renewed: gap .3"),
    ("CSPCA", {"alpha": 0.1, "eta": 0.03, "psd": True}, "imm40 raw", "basis not renewed: gap .3"),
    ("CSPCA", {"alpha": 0.01, "eta": 0.01, "psd": True}, "digits raw", "no mixing: not certified"),
    ("CSPCA", {"alpha": 0.01, "eta": 0.0, "psd": True}, "usps raw", "zeros outweigh the mixing"),
    ("CSPCA", {"alpha": 0.003, "eta": 0.03, "psd": True}, "yale raw", "the slowest of 90 fits"),
    ("CSPCA", {"alpha": 0.02, "eta": 0.03, "psd": True}, "colon raw", "mixing never restarted"),
    ("SPCAPSD", {"alpha": 0.1, "eta": 0.03}, "uneven rows", "a few rows carry most of S"),
    ("SPCAPSD", {"alpha": 0.4, "eta": 0.1}, "mnist raw", "many constant columns"),
    ("SPCA", {"n_components": 3, "alpha": 0.02, "ridge": 1e-3}, "digits raw", "varimax start"),
    ("SPCA", {"n_components": 3, "n_nonzero": 5, "ridge": 1e-3}, "pie raw", "varimax start"),
    ("SPCA", {"n_components": 3, "n_nonzero": 10, "ridge": "inf"}, "yale raw", "several starts"),
    ("SPCAFS", {"alpha": 0.3, "p": 0.5, "n_components": 12}, "isolet raw", "stopped by leverages"),
    ("UDFS", {"alpha": 0.03, "n_clusters": 5, **NEIGHBOURS}, "yale raw", "rows dropped at 1e-8"),
    ("FSSL", {"mu": 100.0, "norm": "l21", **PCA}, "isolet wide raw", "majorisation alone: 12 s"),
    ("FSSL", {"constraint": "equality", "norm": "l21", **PCA}, "isolet wide raw", "no Newton step"),
    ("FSSL", {"constraint": "equality", "norm": "l11", **PCA}, "isolet wide raw", "by columns"),
    ("FSSL", {"mu": 10.0, "norm": "l21", **LPP}, "equal distances", "ties of neighbours"),
    ("LaplacianScore", {"weights": "binary", **NEIGHBOURS}, "equal distances", "ties"),
    ("SubsetSelector", {**EXACT, "n_features_to_select": 2}, "nearly equal", "determined at 1e-9"),
    ("SubsetSelector", {**EXACT, "n_features_to_select": 5}, "breast std", "proved in 640 nodes"),
    ("SubsetSelector", {**EXACT, "n_features_to_select": 5}, "digits raw", "proved in 8000 nodes"),
    ("SubsetSelector", {**EXACT, "n_features_to_select": 5}, "isolet raw", "not proved: 7 % above"),
    ("SPCA", {"n_components": 1, "n_nonzero": 10, "certify": True}, "usps raw", "no discs"),
    ("SPCA", {"n_components": 1, "n_nonzero": 5, "certify": True}, "colon raw", "p = 600"),
]


SHORT = {"n_features_to_select": "h", "n_components": "k", "n_clusters": "c"}  # in names of rows
UNNAMED = {"n_neighbors", "time_limit", "max_nodes"}


def label(name, params, where):
    """Return the name of a row."""
    words = [f"{SHORT.get(k, k)}={v}" for k, v in params.items() if k not in UNNAMED]
    return " ".join([name, *words, "on", where])


def sized(name, given):
    """Return the parameters with a number of features to select, where a method selects some."""
    return {"n_features_to_select": 10, **given} if name in subjects.SELECTORS else given


def rows():
    """Return {name of the row: (class, parameters, table, what the row guards)}."""
    everything = [(name, given, where, "") for name, given, some in MODELS for where in some]
    sizes = ((name, sized(name, given), *more) for name, given, *more in everything + GUARDS)
    return {label(*row[:3]): row for row in sizes}


def absolute(name, given, where):
    """Return parameters with absolute penalties of four digits, and with the tolerance."""
    X = table(where)
    tol = subjects.estimator(name).get_params().get("tol")
    params = {**given, "tol": tol} if tol is not None else dict(given)
    units = [key for key in UNITS.get(name, ()) if key in given]
    if not units or given.get("certify"):
        return params
    fitted = subjects.fit(name, given, X, LABELS.get(where, lambda: None)())
    for key in units:
        value = float(np.max(getattr(fitted, f"{key}_")))  # of components: one number for all
        params[key] = float(f"{value:.4g}") if np.isfinite(value) else "inf"
    if name == "UDFS":  # in the unit of squared distances
        params["ridge"] = float(f"{X.var(axis=0).sum() / 2:.4g}")
    return {**params, "penalty_scale": "absolute"}


def answers_of(name, fitted, X):
    """Return what the new code has to reach."""
    scores, order = subjects.scores(fitted), subjects.order(fitted)
    support = np.flatnonzero(scores > SLIGHT * scores.max())
    found = {
        "objective": subjects.objective(fitted),
        "gap": subjects.gap(fitted),
        "nonzero": np.count_nonzero(scores),
        "support": support if support.size <= 30 else None,
        "top": order[:20],
        "scores": scores[order[:8]],
        "proof": subjects.proof(fitted),
    }
    if found["gap"] is not None:
        found["bound"] = found["objective"] * (1 - found["gap"])
    if subjects.components(fitted) is not None:
        found["components"] = len(subjects.components(fitted))
    if name in subjects.SELECTORS:
        found["set"] = subjects.selected(fitted)
        found["worth"] = judge.worth(X, found["set"])
    return {key: value for key, value in found.items() if value is not None}


def record_row(name, given, where, guards, known):
    """Return a row of the answers; penalties that are stored stay as they are."""
    params = known["params"] if known else absolute(name, given, where)
    X, labels = table(where), LABELS.get(where, lambda: None)()
    found = answers_of(name, subjects.fit(name, params, X, labels), X)
    row = {"name": name, "params": params, "table": where, **found}
    return {**row, "guards": guards} if guards else row


def rounded(value):
    """Return something that JSON knows, with twelve digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return float(f"{value:.12g}") if isinstance(value, float) else value


# ------------------------------------------------------- what is not about one model on one table

HELD_OUT = {"GreedySelector": {}, "SubsetSelector": {"search": "swap"}, "SPCAPSD": {}}
JUDGED = [  # tables with structure: what nothing predicts cannot be compared
    *("breast std", "breast raw", "wine std", "diabetes std", "digits raw", "planted tall"),
    *("planted wide", "counts", "sparse wide", "pairs", "loud and weak"),
    *(name for name in FROM_FOLDER if name != "isolet wide raw"),
]
NOISE = [name for name in TABLES if "noise" in name]
AT_HOME = ("digits raw", "sparse wide", "means of 1e8")  # tall, wide, far from the origin
SEEDS = (0, 1)


def home_rows():
    """Yield (class, parameters, table) of the fits that each home of the data repeats."""
    for name, given, some in MODELS:
        if given.get("psd", name == "SPCAPSD") and given["alpha"] != 0.1:
            continue  # one sparsity penalty of the slow ones
        if "n_features_to_select" not in given and name != "KernelFSSL":  # takes arrays only
            yield from ((name, sized(name, given), where) for where in AT_HOME if where in some)


def of_homes(row, where):
    """Return how far the objective is from that of the array, in each of the other homes."""
    X, labels = table(where), LABELS.get(where, lambda: None)()
    found = {
        home: subjects.objective(subjects.fit(row["name"], row["params"], put(X), labels))
        for home, put in subjects.HOMES.items()
        if not (home == "float32" and where == "means of 1e8")  # which has no digit there
    }
    array = found.pop("array")
    apart = {home: abs(value / array - 1) for home, value in found.items()}
    return {home: float(f"{far:.1g}") if far > 1e-12 else 0.0 for home, far in apart.items()}


def sizes_of(where):
    """Return the sizes at which a table's sets are judged: some features are dropped."""
    return [size for size in SIZES if size + 3 <= table(where).shape[1]]


def of_judge(name, where, size):
    """Return the held-out R² of a method's sets of some size, in percent."""
    params = {**HELD_OUT[name], "n_features_to_select": size}
    return judge.held_out(table(where), lambda X: subjects.selected(subjects.fit(name, params, X)))


def of_verdict(name, where, size):
    """Return the class of the verdict, and how many features are selected."""
    fitted = subjects.fit(name, {"n_features_to_select": size}, table(where))
    return {"verdict": subjects.verdict(fitted), "selected": subjects.selected(fitted).size}


def of_noise(where):
    """Return the number of patterns and of significant features, at a rate of 3 %."""
    patterns, significant = subjects.noise(table(where))
    return {"patterns": patterns, "significant": int(significant.sum())}


def of_family(name, seed):
    """Return precision, and recall of the features that can be found, in percent."""
    X, true, detectable = family(name, seed)
    found = subjects.noise(X)[1]
    precision = (found & true).sum() / max(found.sum(), 1)
    recall = (found & detectable).sum() / detectable.sum()
    return {"precision": 100 * precision, "recall": 100 * recall}


def everything():
    """Yield (section, name, function of the row that is known or None)."""
    for key, row in rows().items():
        yield "models", key, lambda known, row=row: record_row(*row, known)
    for name, given, where in home_rows():
        key = label(name, given, where)
        yield "homes", key, lambda _, key=key, where=where: of_homes(FOUND["models"][key], where)
    for where in JUDGED:
        for name in HELD_OUT:
            yield (
                "held out",
                f"{name} on {where}",
                lambda _, name=name, where=where: {
                    str(size): of_judge(name, where, size) for size in sizes_of(where)
                },
            )
    for where in JUDGED + NOISE:
        for name, size in (("GreedySelector", 10), ("GreedySelector", "auto"), ("SPCAPSD", "auto")):
            if name == "SPCAPSD" and where in FROM_FOLDER:
                continue
            made = (name, where, size)
            yield "verdicts", f"{name}({size}) on {where}", lambda _, made=made: of_verdict(*made)
    for where in TABLES:
        yield "noise", where, lambda _, where=where: of_noise(where)
    for name in FAMILIES:
        for seed in SEEDS:
            made = (name, seed)
            yield "families", f"{name}, seed {seed}", lambda _, made=made: of_family(*made)


FOUND = {}


def main(pattern="*"):
    """Write the answers of the code that is importable now, for the rows that match a pattern."""
    missing = [why for why in map(absent, TABLES) if why]
    if missing:
        sys.exit(missing[0])
    stored = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    for section, name, make in everything():
        known = stored.get(section, {}).get(name)
        if known is None or fnmatch.fnmatch(name, pattern):
            known = rounded(make(known))
        FOUND.setdefault(section, {})[name] = known
    sections = (
        f"{json.dumps(section)}: {{\n"
        + ",\n".join(f"{json.dumps(key)}: {compact(rows[key])}" for key in sorted(rows))
        + "\n}"
        for section, rows in sorted(FOUND.items())
    )
    ANSWERS.write_text("{\n" + ",\n".join(sections) + "\n}\n", encoding="utf-8")


def compact(row):
    """Return a row as one line of JSON."""
    return json.dumps(row, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    with threadpool_limits(1):
        main(*sys.argv[1:])
