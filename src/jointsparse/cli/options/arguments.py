"""From the words of the command line to an unfitted estimator."""

import difflib
from collections.abc import Sequence
from typing import Any

from jointsparse.cli.display.console import shorten_middle
from jointsparse.cli.errors import CommandError, told
from jointsparse.methods import registry
from jointsparse.methods.registry import Method

_FEATURE_COUNT = "n_features_to_select"
_CONSTRAINTS = "constraints"
_RULE = "rule"
_COMPONENTS = "n_components"
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None}


def find_method(name: str) -> Method:
    """Return the registered method of that name, or suggest the close ones."""
    known = registry.methods()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name.lower(), known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
    raise CommandError(f"there is no method {quoted(name)}; {hint}")


def build_estimator(
    method: Method,
    features: str | None,
    params: Sequence[str],
    seed: int | None,
    *,
    r2: float | None = None,
    rule: str | None = None,
    components: int | None = None,
) -> Any:
    """Make the unfitted estimator that the options describe.

    A component method is wrapped, so that it selects features too.

    Parameters
    ----------
    method : Method
        Entry of the registry.
    features : str or None
        Text of ``--features``.
    params : sequence of str
        Texts of ``--param``, each ``NAME=VALUE``.
    seed : int or None
        Number of ``--seed``.
    r2 : float or None
        Number of ``--r2``.
    rule : str or None
        Word of ``--rule``.
    components : int or None
        Number of ``--components``.
    """
    from jointsparse.methods.select_features import SelectFeatures

    valid = default_parameters(method)
    wanted = _parse_params(method, params, valid)
    if features is not None:
        _add(wanted, _FEATURE_COUNT, parse_features(features), "--features", method, valid)
    if r2 is not None:
        if features is not None:
            raise CommandError("--features and --r2 both say how many to keep; give one of them")
        if not 0 < r2 <= 1:
            raise CommandError(f"--r2: {r2:g} is not a share of the variance between 0 and 1")
        _add(wanted, _FEATURE_COUNT, f"r2>={r2:g}", "--r2", method, valid)
    if components is not None:
        _add(wanted, _COMPONENTS, components, "--components", method, valid)
    if rule is not None:
        _add(wanted, _RULE, rule, "--rule", method, valid)
    if seed is not None and "random_state" in valid:
        _add(wanted, "random_state", seed, "--seed", method, valid)
    try:
        if method.kind == "selector":
            return method.make(**wanted)
        own = {name: wanted.pop(name) for name in (_FEATURE_COUNT, _RULE) if name in wanted}
        return SelectFeatures(method.make(**wanted), **own)
    except (TypeError, ValueError) as error:
        raise told(error, method=method.name) from error


def name_of(estimator: Any) -> str | None:
    """Return what the command line calls the method of an estimator."""
    method = registry.method_of(getattr(estimator, "estimator", estimator))
    return None if method is None else method.name


def default_parameters(method: Method) -> dict[str, Any]:
    """Return the parameters that ``select`` knows for a method, with their defaults."""
    parameters: dict[str, Any] = method.make().get_params()
    if method.kind == "components":
        parameters |= {_FEATURE_COUNT: "auto", _RULE: "greedy", _CONSTRAINTS: None}
    return parameters


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator; a wrapped method's and its wrapper's as one."""
    parameters: dict[str, Any] = estimator.get_params()
    wrapped = parameters.pop("estimator", None)
    if wrapped is None:
        return parameters
    own = {name: parameters[name] for name in (_FEATURE_COUNT, _RULE, _CONSTRAINTS)}
    return {**wrapped.get_params(), **own}


def _parse_params(method: Method, params: Sequence[str], valid: dict[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"--param takes NAME=VALUE, not {quoted(text)}")
        _add(wanted, name.strip(), parse_value(value.strip()), "--param", method, valid)
    return wanted


def _add(
    wanted: dict[str, Any],
    name: str,
    value: Any,
    option: str,
    method: Method,
    valid: dict[str, Any],
) -> None:
    if name == _CONSTRAINTS:
        raise CommandError("--param: constraints have options of their own, such as --include")
    if name not in valid:
        raise CommandError(
            f"{option}: {method.name} has no parameter {quoted(name)}; "
            f"it has {', '.join(sorted(valid)) or 'none'}"
        )
    if name in wanted:
        raise CommandError(f"{option}: the parameter {name} is given twice")
    wanted[name] = value


def parse_value(text: str) -> int | float | bool | str | None:
    """Read a value as the number or word that it spells, else as text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_features(text: str) -> int | float | str:
    """Read ``--features``: a count, a share between 0 and 1, or a word that the method knows."""
    value = parse_value(text)
    if isinstance(value, bool) or value is None or value == "":
        raise CommandError(
            "--features takes a count, a share such as 0.2, r2>=0.9, auto or support, not "
            f"{quoted(text)}"
        )
    if isinstance(value, int) and value < 1:
        raise CommandError(f"--features: {value} is not a count of at least 1")
    if isinstance(value, float) and not 0 < value < 1:
        raise CommandError(f"--features: {text} is neither a whole number nor between 0 and 1")
    return value


def quoted(text: str) -> str:
    """Return the user's text in quotes, short enough for a sentence."""
    return f"'{shorten_middle(text, 60)}'"
