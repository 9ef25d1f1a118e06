"""Models in files. Loading one executes nothing that the file brings along.

A pickle is a program: whoever opens one runs it. A skops file is a list of the types and values
that a model is made of; it is loaded only where every type is one of those below: the estimators of
this library, what they keep, and what skops itself knows to be harmless (estimators of
scikit-learn, arrays of NumPy and SciPy).
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from jointsparse.io import atomic_path
from jointsparse.io.archive import packed, unpacked
from jointsparse.io.budget import available_memory, size_in_words
from jointsparse.io.errors import listed
from jointsparse.methods import registry

SUFFIX = ".skops"
_SCHEMA = "schema.json"  # what the model is made of; arrays are files beside it
# The parts, the archive of them that is not packed, and what is made of it are there at the same
# time: a model of 1.57 GB took 4.9 GB.
_COPIES = 3.5
_PARSED = 10  # times the size of its text that a schema takes, about


class ModelError(ValueError):
    """A model that cannot be saved or loaded, told in one sentence."""


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator or pipeline to a file, whole or not at all.

    Parameters
    ----------
    model : estimator
        Fitted; of this library, of scikit-learn, or a pipeline of both.
    path : path-like
        File to write; its name ends in ``.skops``.

    See Also
    --------
    load_model : Reads it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from jointsparse import GreedySelector, load_model, save_model
    >>> X, _ = load_iris(return_X_y=True)
    >>> selector = GreedySelector(n_features_to_select=2).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(selector, Path(folder) / "model.skops")
    ...     loaded = load_model(Path(folder) / "model.skops")
    >>> loaded.get_support().tolist() == selector.get_support().tolist()
    True
    """
    import skops.io  # imports all of scikit-learn, so only where it is needed

    check_model_path(path)
    if not isinstance(model, BaseEstimator):
        raise ModelError(f"only estimators can be saved, not {type(model).__name__}")
    content = skops.io.dumps(model)
    foreign = _foreign(skops.io.get_untrusted_types(data=content))
    if foreign:
        raise ModelError(
            f"the model cannot be saved so that it could be loaded again: it holds {foreign}"
        )
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read an estimator or pipeline that :func:`save_model` wrote.

    Nothing in the file is executed: files with types that are neither of this library nor plain
    ones of NumPy, SciPy and scikit-learn are refused, and so are pickles.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator
        The fitted estimator.

    See Also
    --------
    save_model : Writes it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from jointsparse import SPCAPSD, load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(SPCAPSD(alpha=0.2), Path(folder) / "model.skops")
    ...     load_model(Path(folder) / "model.skops")
    SPCAPSD(alpha=0.2)
    """
    import skops.io

    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ModelError(f"{path} was not loaded: it is a device or a pipe, not a file")
    try:
        _check_size(path, path.stat().st_size)
        content = path.read_bytes()
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path} cannot be read: {reason}") from error
    if not zipfile.is_zipfile(io.BytesIO(content)):
        pickled = content[:1] == b"\x80"  # every protocol since the second begins with this byte
        what = "a pickle, which could run any program" if pickled else "not a skops file"
        raise ModelError(f"{path} was not loaded: it is {what}")
    # A file made to do harm can fail in any way; whatever it is, the model is not loaded.
    try:
        content = _plain(path, content)
        foreign = _foreign(skops.io.get_untrusted_types(data=content))
    except ModelError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error
    if foreign:
        raise ModelError(f"{path} was not loaded: it holds {foreign}, which no model here needs")
    try:
        model = skops.io.loads(content, trusted=_trusted())
    except Exception as error:
        raise _damaged(path, error) from error
    if not isinstance(model, BaseEstimator):
        raise ModelError(f"{path} holds no model but {type(model).__name__}")
    return model


def _plain(path: Path, content: bytes) -> bytes:
    """Return the same model in an archive that is not packed: reading it inflates nothing.

    Refused are parts that are not as long as they say, and parts that, each as often as it is
    referred to, are more than the memory.
    """
    parts = unpacked(content, partial(_check_size, path))
    size = sum(map(len, parts.values()))

    def check_more(more: int) -> None:
        _check_size(path, size + more)

    for name, part in parts.items():
        if zipfile.is_zipfile(io.BytesIO(part)):  # a sparse matrix, which is an archive itself
            parts[name] = packed(unpacked(part, check_more))
            size += len(parts[name])
    total = _PARSED * len(parts[_SCHEMA])
    _check_size(path, total)
    waiting = [json.loads(parts[_SCHEMA])]
    while waiting:  # not by recursion: the file says how deep it is
        part = waiting.pop()
        if isinstance(part, dict):
            total += len(parts.get(str(part.get("file")), b""))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    _check_size(path, total)
    return packed(parts)


def _check_size(path: Path, size: int) -> None:
    """Refuse a file that says to be more than the memory, in all its copies."""
    needed = int(_COPIES * size)
    if needed > (free := available_memory()):
        raise ModelError(
            f"{path} was not loaded: it takes {size_in_words(needed)} of memory, and "
            f"{size_in_words(free)} are free"
        )


def check_model_path(path: str | os.PathLike[str]) -> None:
    """Refuse, before a long fit, a file name that :func:`save_model` would refuse."""
    if Path(path).suffix.lower() != SUFFIX:
        raise ModelError(f"a model is saved as {SUFFIX}, so {path} must end in that")


def _foreign(types: list[str]) -> str:
    """Return in words the types that are not trusted; nothing where all are."""
    foreign = [name for name in types if name not in set(_trusted())]
    return f"the type {listed(foreign, most=3)}" if foreign else ""


def _trusted() -> list[str]:
    """Return the full names of the types that a file may hold besides those skops knows."""
    import numpy as np
    from scipy import sparse

    from jointsparse.extremes import Extremes
    from jointsparse.incomplete import MissingValues
    from jointsparse.methods.kernel_fssl import KernelFSSL
    from jointsparse.methods.robust_steps import SpatialSign, Wrap
    from jointsparse.methods.select_features import SelectFeatures
    from jointsparse.selection_report import SelectionReport, StandIns
    from jointsparse.solvers.choice import Exact, Factored, Published, Splitting
    from jointsparse.solvers.subset.constraints import Constraints
    from jointsparse.sources.weighting import Batches
    from jointsparse.trials import Curve, Worth

    estimators = {f"{m.module}.{m.class_name}" for m in registry.methods().values()}
    kept = {Batches, Constraints, Curve, Extremes, KernelFSSL, MissingValues, SelectFeatures}
    kept |= {SelectionReport, SpatialSign, StandIns, Worth, Wrap}
    plain = {np.dtype, sparse.csr_array, sparse.csc_array, sparse.coo_array}
    solvers = {Exact, Factored, Published, Splitting}
    others = {f"{kind.__module__}.{kind.__qualname__}" for kind in kept | plain | solvers}
    return sorted(estimators | others)


def _damaged(path: Path, error: Exception) -> ModelError:
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
    return ModelError(f"{path} is damaged or was saved by another version ({reason})")
