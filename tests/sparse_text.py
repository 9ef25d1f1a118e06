"""Sparse tables like those of words in documents, and a guard against making them dense."""

import numpy as np
import scipy.sparse as sp


def text_like(rng, n, p):
    """Few words of a few topics in each document, one word that nobody uses."""
    words = sp.random_array((n, p), density=0.03, rng=rng)
    topics = sp.random_array((5, p), density=0.05, rng=rng)
    member = sp.csr_array((rng.uniform(size=(n, 5)) < 0.3).astype(float))
    matrix = sp.csr_array(words + 2 * member @ topics).tolil()
    matrix[:, 7] = 0
    return matrix


def refuse_dense(monkeypatch, entries):
    """Make everything raise that turns a sparse matrix of so many entries into an array."""

    def guarded(original):
        def refusing(self, *args, **kwargs):
            if np.prod(self.shape) >= entries:
                raise AssertionError(f"a {self.shape} matrix was made dense")
            return original(self, *args, **kwargs)

        return refusing

    for layout in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        for kind in ("array", "matrix"):
            made = getattr(sp, f"{layout}_{kind}")
            for name in ("toarray", "todense"):
                monkeypatch.setattr(made, name, guarded(getattr(made, name)))
