"""What the library says in the words of Python, said in those of the command line.

The library names classes, parameters and calls; whoever typed a command knows methods and options.
Every message of the library passes through :func:`in_options` on its way to the terminal, and
nowhere else is one turned into the other.
"""

import re
from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType

# parameter: option of the same meaning. All others of a method are given by --param NAME=VALUE.
_OPTIONS = {
    "n_features_to_select": "--features",
    "rule": "--rule",
    "n_components": "--components",
    "random_state": "--seed",
    "n_subsamples": "--subsamples",
    "criterion": "--choose",
    "memory": "--memory",
    "label": "--label",
    "impute": "--missing",
    "missing": "--missing",
    "scale": "--scale",
    "sample_weight": "--weights",
    "batch": "--batch",
    "drop_text": "--drop-text",
    "feature_names": "names of columns",
    "max_per_group": "--max-per-group",
    "whole_groups": "--whole-groups",
}
_FLAGS = {"drop_text"}  # options without a value
# What only Python can do, and what to do here instead.
_PHRASES = {
    "both include and exclude": "both --include and --exclude",
    "batch is different for every sample": "the column of --batch is different for every sample",
    "out of include": "out of --include",
    "in include": "in --include",
    "include has": "--include has",
    "SubsetSelector looks for": "--method subset looks for",
    "out of exclude": "out of --exclude",
    "in exclude": "in --exclude",
    "exclude leaves": "--exclude leaves",
    "raise budget": "raise --budget",
    "needs the classes of the samples: fit(X, y). Without classes use": (
        "needs classes, which no command takes for a fit; use"
    ),
    ": fit it with fit(X), or with moments from Moments.from_data(X)": (
        ": allow more with --memory, so that they fit"
    ),
    ": use fit(X), or graph='pca'": (
        ": allow more with --memory, so that they fit, or use --param graph=pca"
    ),
    ": give param_grid": "",
    ", or give param_grid": "",
    "regularization_path is for": "there is one for",
    "stability_selection needs": "halves of the samples need",
    " (missing='mean' does, where there is this parameter)": " with --missing mean",
}
_PAIR = re.compile(r"""(?<![\w'"./-])(?P<name>[a-z]\w*)=(?P<value>'[^']*'|"[^"]*"|[^\s,;:()'"]+)""")
_SAMPLE = re.compile(r"for sample (\d+) \(counted from 0\)")  # files have rows, the first is 1
_WRAPPER = re.compile(r"\bSelectFeatures: ")
_LEARNED = re.compile(r"(?<![\w'\"./])([a-z]+(?:_[a-z]+)*)_(?![\w.'\"])")  # loadings_


def in_options(
    text: str, method: str | None = None, options: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a message of the library in the words of the command line.

    Parameters
    ----------
    text : str
        The message.
    method : str or None
        Name of the method it is about, where it is about one: several can share a class.
    options : mapping
        Parameters that have an option in this command only.

    Examples
    --------
    >>> from jointsparse.cli.words import in_options
    >>> in_options("CSPCA did not converge. Raise max_iter.", "cspca")
    'cspca did not converge. Raise --param max_iter.'
    >>> in_options("n_features_to_select=40 is too many; use rule='norm' or alpha=0.2")
    '--features 40 is too many; use --rule norm or --param alpha=0.2'
    """
    for phrase, other in _PHRASES.items():
        text = text.replace(phrase, other)
    text = _SAMPLE.sub(lambda found: f"in data row {int(found[1]) + 1}", text)
    known = {**_OPTIONS, **options}
    text = _WRAPPER.sub("", text)
    text = _PAIR.sub(partial(_as_option, options=known), text)
    text = _bare_names().sub(partial(_as_name, options=known), text)
    text = _classes().sub(lambda found: _method_of(found[0], method), text)
    return _LEARNED.sub(lambda found: found[1].replace("_", " "), text)


def _as_option(found: re.Match[str], options: Mapping[str, str]) -> str:
    name, value = found["name"], found["value"]
    end = "." if value.endswith(".") else ""
    value = value.removesuffix(".").strip("'\"")
    if name in _FLAGS:
        return f"{options[name]}{end}"
    if name in options:
        return f"{options[name]} {value}{end}"
    if name not in _parameters() or _given(found):
        return found[0]
    return f"--param {name}={value}{end}"


def _as_name(found: re.Match[str], options: Mapping[str, str]) -> str:
    return found[0] if _given(found) else options.get(found[0], f"--param {found[0]}")


def _given(found: re.Match[str]) -> bool:
    return found.string[: found.start()].endswith("--param ")


def _method_of(kind: str, method: str | None) -> str:
    names = _names_of_classes()[kind]
    return method if method in names else names[0]


@cache
def _names_of_classes() -> dict[str, list[str]]:
    """Return the methods of each class; the classes they are built on are no method's name."""
    from jointsparse.methods import registry

    names: dict[str, list[str]] = {}
    for method in registry.methods().values():
        names.setdefault(method.class_name, []).append(method.name)
    names["KernelFSSL"] = ["kernel fssl"]
    return names | {name: ["the method"] for name in ("MomentsEstimator", "SelectFeatures")}


@cache
def _classes() -> re.Pattern[str]:
    longest_first = sorted(_names_of_classes(), key=len, reverse=True)
    # Not within the name of a file or a column.
    return re.compile(rf"(?<![\w./'\"-])(?:{'|'.join(longest_first)})(?![\w/'\"-]|\.\w)(?:\(\))?")


@cache
def _parameters() -> frozenset[str]:
    """Return the names of the parameters of all methods."""
    from jointsparse.methods import registry

    return frozenset(
        name for method in registry.methods().values() for name in method.make().get_params()
    )


@cache
def _bare_names() -> re.Pattern[str]:
    """Return what finds parameters without a value; those that are English words stay."""
    names = sorted((name for name in {*_parameters(), *_OPTIONS} if "_" in name), key=len)
    return re.compile(rf"(?<![\w'\"./=-])(?:{'|'.join(reversed(names))})(?![\w'\"./=-]*[\w'\"/=])")
