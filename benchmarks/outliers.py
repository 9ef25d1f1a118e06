"""What methods do about kinds of outliers: ``python -m benchmarks --suite outliers [SECTION …]``.

Sections: features (which of eight features are found), angles (how far the components are from the
true ones), clean (what ``robust`` costs on tables without planted outliers); "page" writes
docs/outliers.md from what they stored in benchmarks/results. What is stored is not measured again.

The datasets are read from the folder that JOINTSPARSE_DATA names.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # these sources, installed or not
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the tables with outliers

import numpy as np

from benchmarks.common import NAMES, ROOT
from benchmarks.evidence import capped, judge_of, standardised

PATH = ROOT / "benchmarks" / "results" / "outliers.json"
PAGE = ROOT / "docs" / "outliers.md"
FIRST_SEED, DRAWS = 8000, 4  # no draw that the tests, or the design, have looked at
SHARES = (0.05, 0.2)
SIZE = 10  # features kept of a dataset
CUTS = (0, 1)
REPEATS = 3  # of a fit of some hundredths of a second: the fastest counts

KINDS = {  # kind: in words, whether the share of outliers matters
    "clean": ("no outliers", False),
    "noise 2": ("noise features × 2", True),
    "noise 8": ("noise features × 8", True),
    "noise 30": ("noise features × 30", True),
    "all 30": ("all features × 30", True),
    "shift 10": ("common shift of 10", True),
    "shift 30": ("common shift of 30", True),
    "shift 100": ("common shift of 100", True),
    "one 1e3": ("one sample at 1e3", False),
    "one 1e6": ("one sample at 1e6", False),
    "cells 30": ("single cells at 30", True),
    "tails": ("heavy tails of samples (t₂)", False),
    "celltails": ("heavy tails of cells (t₂)", False),
}
RIGHT = {"cells 30": "cells", "celltails": "cells"}  # which robust is meant for it; else samples


def selectors():
    """Return {name: selector} of the table of features."""
    from sklearn.pipeline import make_pipeline

    from jointsparse import (
        AWSPCA,
        CSPCA,
        JSPCA,
        SPCAPSD,
        GreedySelector,
        SelectFeatures,
        SpatialSign,
    )

    k = {"n_features_to_select": 8}
    return {
        "SPCAPSD": SPCAPSD(**k),
        "CSPCA": CSPCA(**k),
        "AWSPCA": AWSPCA(**k),
        "JSPCA": SelectFeatures(JSPCA(n_components=2), **k),
        "textbook signs, SPCAPSD": make_pipeline(SpatialSign(lengths="one"), SPCAPSD(**k)),
        'SPCAPSD, "samples"': SPCAPSD(**k, robust="samples"),
        'SPCAPSD, "cells"': SPCAPSD(**k, robust="cells"),
        'GreedySelector, "samples"': GreedySelector(**k, robust="samples"),
        'GreedySelector, "cells"': GreedySelector(**k, robust="cells"),
    }


def projections():
    """Return {name: function from samples to a basis of three directions}."""
    from sklearn.decomposition import PCA

    from jointsparse import JSPCA, Moments, RobustPCA

    few = {"n_components": 3, "alpha": 1e-3}
    return {
        "PCA": lambda X: PCA(3).fit(X).components_.T,
        "RobustPCA": lambda X: RobustPCA().fit(X).components_[:3].T,
        "JSPCA": lambda X: JSPCA(**few).fit(X).components_.T,
        'PCA, "samples"': lambda X: leading(Moments.from_data(X, robust="samples")),
        'PCA, "cells"': lambda X: leading(Moments.from_data(X, robust="cells")),
        'JSPCA, "samples"': lambda X: JSPCA(**few, robust="samples").fit(X).components_.T,
        'JSPCA, "cells"': lambda X: JSPCA(**few, robust="cells").fit(X).components_.T,
    }


def leading(moments):
    return np.linalg.eigh(moments.scatter)[1][:, -3:]


def cases():
    for kind, (_, shared) in KINDS.items():
        for share in SHARES if shared else SHARES[:1]:
            yield kind, share


def quietly(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def features_pieces():
    from outlier_cases import SIGNAL, outlier_table

    def found(kind, share):
        counts = {name: [] for name in selectors()}
        for seed in range(FIRST_SEED, FIRST_SEED + DRAWS):
            X = outlier_table(kind, seed, share=share).values
            # As everybody would: standardised first, whatever that does to outliers.
            for name, selector in selectors().items():
                kept = quietly(selector.fit, standardised(X))
                kept = (kept[-1] if hasattr(kept, "steps") else kept).get_support()
                counts[name].append(int(kept[:SIGNAL].sum()))
        return counts

    for kind, share in cases():
        yield f"{kind}/{share}", lambda k=kind, s=share: found(k, s)


def angles_pieces():
    from outlier_cases import angle, low_rank_table

    def found(kind, share):
        angles = {name: [] for name in projections()}
        for seed in range(FIRST_SEED, FIRST_SEED + DRAWS):
            table = low_rank_table(kind, seed, share=share)
            for name, project in projections().items():
                basis = quietly(project, table.values)
                angles[name].append(round(angle(basis, table.directions), 2))
        return angles

    for kind, share in cases():
        yield f"{kind}/{share}", lambda k=kind, s=share: found(k, s)


def clean_pieces():
    from threadpoolctl import threadpool_limits

    from jointsparse import SPCAPSD

    def compare(name):
        X = capped(name)[0]
        worth = {str(robust): [] for robust in (None, "samples", "cells")}
        seconds = dict.fromkeys(worth, 0.0)
        for cut in CUTS:
            order = np.random.default_rng(cut).permutation(len(X))
            one, other = np.sort(order[: len(X) // 2]), np.sort(order[len(X) // 2 :])
            live = X[:, (X[one].std(axis=0) > 0) & (X[other].std(axis=0) > 0)]
            for train, test in ((one, other), (other, one)):
                fold = judge_of(live, train, test, "all samples")
                data = standardised(live[train])
                selectors = {
                    str(robust): SPCAPSD(n_features_to_select=SIZE, robust=robust)
                    for robust in (None, "samples", "cells")
                }
                passes = {name: [] for name in selectors}
                with threadpool_limits(1):
                    for _ in range(REPEATS):  # in turn: what else the machine does hits all alike
                        for name, selector in selectors.items():
                            start = time.process_time()
                            quietly(selector.fit, data)
                            passes[name].append(time.process_time() - start)
                for name, selector in selectors.items():
                    seconds[name] += min(passes[name])
                    kept = np.argsort(selector.ranking_)[:SIZE]
                    worth[name].append(float(fold.judge(kept, ridge=True).r2))
        return {"worth": worth, "seconds": seconds, "shape": list(live.shape)}

    for name in NAMES:
        yield name, lambda name=name: compare(name)


SECTIONS = {"features": features_pieces, "angles": angles_pieces, "clean": clean_pieces}


def stored():
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def run(section, out=print):
    """Measure what a section has not stored yet."""
    for name, piece in SECTIONS[section]():
        if name in stored().get(section, {}):
            continue
        start = time.perf_counter()
        one = piece()
        found = stored()
        found.setdefault(section, {})[name] = one
        PATH.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        out(f"{section}: {name} [{time.perf_counter() - start:.0f} s]")


HEAD = """<!-- Written by `python -m benchmarks.outliers page` from what it stored. -->
# Outliers

Few samples that are far from the rest, or few values that are grossly wrong, decide what an
ordinary fit finds. One parameter and two transformers bound what they can do:

```python
from sklearn.datasets import load_breast_cancer
from jointsparse import SPCAPSD

X = load_breast_cancer().data
selector = SPCAPSD(robust="samples").fit(X)  # whole samples may be wrong, up to a fifth of them
print(selector.outliers_.sum(), "samples are far from the others")
selector = SPCAPSD(robust="cells").fit(X)  # single values may be wrong, in good samples
print(selector.robust_step_.gross_cells(X).sum(), "values are far from the rest of their columns")
```

`robust` is a parameter of `SPCAPSD`, `GreedySelector`, `SubsetSelector`, `SPCA`, `JSPCA` and
`Moments.from_data`. In front of any other method put a transformer, `SpatialSign()` for samples or
`Wrap()` for cells: `make_pipeline(SpatialSign(), CSPCA())`. On the command line `--robust samples`
and `--robust cells` work with every method, list the outliers, and write the original values of
the kept columns; `--outliers` adds the outlier scores to `--output`.

* **"samples"**: columns are made comparable by robust locations and deviations (components keep
  the units of the columns); the centre is found from the geometric median. Samples of usual length
  stay as they are, longer ones keep their direction only, and those far from all others count as
  nothing.
* **"cells"**: columns are standardised by median and a robust scale and passed through a bounded
  function (wrapping) that leaves the middle as it is and makes gross values 0.

The scatter matrix of such samples is bounded, so that all else holds on it: optima are certified,
the noise edge is that of the robust samples (no false alarm in at least 95 % of tables of noise,
with and without outliers), and what a set is worth is measured on them.

A sample is called an outlier where its outlier score is above 2.8, as 1 in 400 clean Gaussian
samples is (at most 1 in 100 of few samples); a value where it is more than 4 robust units from the
middle of its column, as 1 in 16 000 is (at most 1 in 1000 of few samples). Scores are in
`outlier_scores_`, gross values in `robust_step_.gross_cells(X)`.
"""

FEATURES = """
## Which features are found

Two patterns in eight of 60 features, 200 samples; right features of 8 (mean of {draws} tables),
default penalties, columns standardised before. In bold: the `robust` that is meant for that kind.
"""

ANGLES = """
## How far the components are off

Three patterns in all of 40 features, 300 samples; largest angle between the three components and
the true ones in degrees (mean of {draws} tables; 90 is as wrong as can be). "Noise features" are
the second half of the columns here. PCA of robust samples is that of
`Moments.from_data(X, robust=…)`.
"""

CLEAN = """
## What it costs where nothing is wrong

`SPCAPSD(n_features_to_select={size})` on half of each dataset: R² of the dropped features in the
other half (mean of four halves, in points of 100), what `robust` adds to that, and processor time
beside the plain fit (the fastest of {repeats}; some problems take more iterations, some fewer).
These tables are as they are: some have outliers of their own.
"""

LIMITS = """
## What it does not do

* Outliers are known by their distance. Samples that are wrong and not far are not found, and a
  group of samples that is far from a larger one is taken for outliers, whether it is wrong or a
  group of its own: look at `outliers_` before you believe either.
* More than a fifth of the samples, or a quarter of the values of a column, can be too much. Of a
  column in which most values are the same, half of those that differ.
* "cells" looks at each column by itself: values that are wrong only beside those of other columns
  stay.
* The unsquared losses of `CSPCA`, `AWSPCA` and `JSPCA`, as published, bound what a residual can do,
  not what a far sample can: the tables show how far that goes. They are there for who wants the
  papers' models.
* Sparse tables stay sparse; for "samples" they are not centred. Files and clusters are read in two
  or three passes; where medians of 1000 rows do not fit in memory, they are refused.
"""


def row(cells):
    return "| " + " | ".join(cells) + " |"


def grid(head, rows):
    return "\n".join([row(head), row(["---"] * len(head)), *map(row, rows)])


def in_words(case):
    kind, share = case.split("/")
    words, shared = KINDS[kind]
    return f"{words}, {float(share):.0%} of all".replace("%", " %") if shared else words


def table_of(section, digits):
    found = stored()[section]
    names = list(next(iter(found.values())))
    rows = []
    for case, one in found.items():
        right = RIGHT.get(case.split("/")[0], "samples")
        cells = [in_words(case)]
        for name in names:
            text = f"{np.mean(one[name]):.{digits}f}"
            cells.append(f"**{text}**" if f'"{right}"' in name else text)
        rows.append(cells)
    return grid(["outliers", *(name.replace('"', "`") for name in names)], rows)


def clean_table():
    rows = []
    for name, one in stored()["clean"].items():
        plain, samples, cells = (
            100 * np.mean(one["worth"][k]) for k in ("None", "samples", "cells")
        )
        times = (one["seconds"][k] / one["seconds"]["None"] for k in ("samples", "cells"))
        changes = (f"{value - plain:+.1f}" for value in (samples, cells))
        rows.append([name, f"{plain:.1f}", *changes, *(f"{value:.1f} ×" for value in times)])
    head = ["dataset", "plain", "`samples`", "`cells`", "time, `samples`", "time, `cells`"]
    return grid(head, rows)


def clean_words():
    """Say in the mean what the table shows, and where it is worst."""
    found, sentences = stored()["clean"], []
    for kind in ("samples", "cells"):
        changes = {
            name: 100 * (np.mean(one["worth"][kind]) - np.mean(one["worth"]["None"]))
            for name, one in found.items()
        }
        worst = min(changes, key=changes.get)
        sentences.append(
            f'"{kind}" changes {np.mean(list(changes.values())):+.1f} points in the mean, '
            f"{changes[worst]:+.1f} at worst ({worst})"
        )
    return f"{'; '.join(sentences)}."


def page():
    """Return the page."""
    parts = [
        HEAD,
        FEATURES.format(draws=DRAWS),
        table_of("features", 2),
        ANGLES.format(draws=DRAWS),
        table_of("angles", 1),
        CLEAN.format(size=SIZE, repeats=REPEATS),
        clean_table(),
        "",
        clean_words(),
        LIMITS,
    ]
    return "\n".join(parts)


def main(words=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks --suite outliers", description=__doc__
    )
    parser.add_argument("sections", nargs="*", default=[*SECTIONS, "page"])
    parser.add_argument("--quick", action="store_true", help="two pieces, nothing is stored")
    options = parser.parse_args(words)
    if options.quick:
        for section in ("features", "angles"):
            name, piece = next(SECTIONS[section]())
            print(name, piece())
        return
    for section in options.sections:
        if section == "page":
            PAGE.write_text(page())
        else:
            run(section)


if __name__ == "__main__":
    main()
