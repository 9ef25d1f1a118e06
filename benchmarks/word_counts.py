"""Word counts as they come: how often each word stands in the descriptions of functions.

The documents are the docstrings of everything public in NumPy, SciPy and scikit-learn, which every
installation has; their number and words change a little with the versions. Most counts are 0, and
a few words ("the", "array") have most of the squares: nothing is scaled, as most people who select
words do not.
"""

import importlib
import inspect
import pkgutil
import re
from collections import Counter

import numpy as np

PACKAGES = ("numpy", "scipy", "sklearn")
SHORTEST = 60  # words of a docstring, below which it is a remark
IN_DOCUMENTS = 5  # at least, as in the usual min_df: rarer words are names and misprints


def modules(package):
    """Yield the public modules of a package that can be imported here."""
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.iter_modules(root.__path__):
        if not found.name.startswith("_") and found.name not in ("tests", "testing", "conftest"):
            try:
                yield importlib.import_module(f"{package}.{found.name}")
            except ImportError:
                continue


def documents():
    """Return the docstrings, each once, in the order of their names."""
    found = {}
    for package in PACKAGES:
        for module in modules(package):
            # What a package lists but hands out on request only (experiments) is not in here.
            listed = set(getattr(module, "__all__", dir(module))) & vars(module).keys()
            for name in sorted(name for name in listed if callable(vars(module)[name])):
                text = inspect.getdoc(vars(module)[name]) or ""
                found.setdefault(text, f"{module.__name__}.{name}")
    return [text for text, _ in sorted(found.items(), key=lambda item: item[1])]


def word_counts(n_documents):
    """Return counts of shape (documents, words) and the words; the documents are drawn once."""
    counted = [Counter(re.findall(r"[a-z]{2,}", text.lower())) for text in documents()]
    counted = [one for one in counted if one.total() >= SHORTEST]
    drawn = np.sort(np.random.default_rng(0).permutation(len(counted))[:n_documents])
    kept = [counted[i] for i in drawn]
    spread = Counter(word for one in kept for word in one)
    words = sorted(word for word, number in spread.items() if number >= IN_DOCUMENTS)
    return np.array([[one[word] for word in words] for one in kept], dtype=float), words
