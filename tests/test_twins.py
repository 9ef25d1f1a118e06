"""Every method in every container, from Python and from the command line, is its dense twin.

``fuzz.containers`` lists the containers, ``fuzz.twins`` says what is the same, what a tie is and
how one is recognised, ``fuzz.refusals`` what may be refused. Both sides come from the registry and
from that list, so that a new method and a new container are tested without a line here.
"""

import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from fuzz.containers import CONTAINERS, close, contents, least_memory
from fuzz.refusals import kind_of
from fuzz.twins import REFUSED, SAME, SAME_LIMIT, TIED, Answer, answer, verdict, view_of
from jointsparse import open_source, registry
from jointsparse.cli.main import app
from jointsparse.cli.options.arguments import build_estimator

METHODS = registry.methods()
IN_PYTHON = [name for name, container in CONTAINERS.items() if container.in_python]
FILES = [name for name, container in CONTAINERS.items() if container.write]
# Penalties at which the optimum is sparse, so that the kept features are no matter of tolerance; as
# many as that, since "auto" would solve these, the slowest of all, for many parts of the table.
CLEAR = {
    "cspca-psd": {"alpha": 0.3, "eta": 0.3, "n_features_to_select": 4},
    "cspca": {"alpha": 0.3, "eta": 0.3, "n_features_to_select": 4},
    "aw-spca-psd": {"alpha": 0.3, "n_features_to_select": 4},
    "aw-spca": {"alpha": 0.3, "n_features_to_select": 4},
}
# More samples than fit in ``least_memory``; more features than samples.
SHAPES = {"tall": (110, 8), "wide": (12, 30)}
RUNNER = CliRunner()


def samples(shape):
    """Signal, noise, offsets in half of the columns, and zeros among the entries of all."""
    n, p = SHAPES[shape]
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    X = (X + 0.4 * rng.standard_normal((n, p))) * rng.uniform(0.5, 2, p)
    X += np.where(rng.random(p) < 0.5, 3.0, 0.0)
    X[rng.random((n, p)) < 0.3] = 0.0
    return X


def pairs(containers):
    """Return all methods × containers; each container once, in turn, is fast.

    Of the wide tables, on which fits take longer, every method sees every third container.
    """
    found = []
    for i, method in enumerate(METHODS):
        for j, name in enumerate(containers):
            shapes = ["tall"] if (i + j) % 3 else ["tall", "wide"]
            for shape in shapes:
                missing = not CONTAINERS[name].installed
                marks = [pytest.mark.skipif(missing, reason="its package is not installed")]
                if (i + 5 * j) % len(METHODS) or shape != shapes[-1]:
                    marks.append(pytest.mark.exhaustive)
                found.append(pytest.param(method, name, shape, marks=marks))
    return pytest.mark.parametrize(("method", "name", "shape"), found)


def check(outcome, container):
    """Accept a refusal only of containers that allow too little memory for the method."""
    good = (SAME, SAME_LIMIT, TIED, *([REFUSED] if container.scarce else []))
    assert outcome in good, outcome


@pairs(IN_PYTHON)
def test_every_container_gives_the_fit_of_its_dense_twin(method, name, shape, tmp_path):
    X, container = samples(shape), CONTAINERS[name]
    held = container.make(X, tmp_path)
    outcome = verdict(
        METHODS[method].make(**CLEAR.get(method, {})),
        lambda estimator: answer(estimator, held),
        container.values(X),
        single=container.single,
        may_not_fit=container.scarce,
        view=view_of(container, held, X),
    )
    close(held)
    check(outcome, container)


def told(estimator, path, method, *more):
    """Return the answer of the command line to the parameters of an estimator."""
    default = build_estimator(METHODS[method], None, [], None).get_params(deep=False)
    given = {k: v for k, v in estimator.get_params(deep=False).items() if v != default[k]}
    given.pop("estimator", None)
    options = [f"--param={name}={value}" for name, value in given.items()]
    words = ["select", str(path), "--method", method, "--scale", "none", "--json", "--quiet"]
    result = RUNNER.invoke(app, [*words, *options, *more])
    if result.exit_code:
        assert result.exit_code == 2, result.output
        error = ValueError(result.stderr)
        kind = kind_of(error, estimator)
        assert kind is not None, result.stderr
        return Answer.refusal(kind, result.stderr)
    record = json.loads(result.stdout)
    rows = sorted(record["ranking"], key=lambda row: position(row["feature"]))
    return Answer(
        np.array([row["score"] for row in rows]),
        np.array([row["rank"] for row in rows]),
        np.array([row["kept"] for row in rows]),
        record["objective"],
        components_told(record),
        record["duality_gap"],
    )


def components_told(record):
    """Return the components of a record, which names the loadings that are not 0."""
    if not record["components"]:
        return None
    components = np.zeros((len(record["components"]), record["n_features"]))
    for row, told in zip(components, record["components"], strict=True):
        assert len(told["loadings"]) == told["n_nonzero"]
        for name, loading in told["loadings"].items():
            row[position(name)] = loading
    return components


def position(name):
    """Return the number of a column, whose name is that of the file or made up for it."""
    return int(name.split()[1]) if name.startswith("column") else int(name[1:]) - 1


@pairs(FILES)
def test_the_command_line_gives_the_fit_of_the_dense_twin(method, name, shape, tmp_path):
    X, container = samples(shape), CONTAINERS[name]
    path = container.write(X, tmp_path)
    more = ["--memory", str(least_memory(X))] if container.scarce else []
    params = [f"{name}={value}" for name, value in CLEAR.get(method, {}).items()]
    estimator = build_estimator(METHODS[method], None, params, None)
    outcome = verdict(
        estimator,
        lambda one: told(one, path, method, *more),
        container.values(X),
        may_not_fit=container.scarce,
        view=view_of(container, path, X),  # as it is read where it is not read at once
    )
    check(outcome, container)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", IN_PYTHON)
def test_a_value_that_is_no_number_is_refused_in_every_container(name, value, tmp_path):
    container = CONTAINERS[name]
    if not container.installed:
        pytest.skip("its package is not installed")
    X = samples("tall")
    X[57, 4] = value
    held = container.make(X, tmp_path)
    for method in ("greedy", "spca"):
        assert answer(METHODS[method].make(), held).refused in {"not finite", *too_small(name)}
    close(held)


def too_small(name):
    """What else may be said: a batch of Arrow and its description take more than this table."""
    return {"memory"} if name == "Arrow in blocks" else set()


@pytest.mark.parametrize("method", ["greedy", "spca"])
def test_arrow_in_blocks_refuses_a_value_that_is_no_number(method, tmp_path):
    X = np.tile(samples("tall"), (3, 1))
    X[257, 4] = np.nan
    source = open_source(CONTAINERS["Arrow in blocks"].write(X, tmp_path), memory="20kB")
    assert answer(METHODS[method].make(), source).refused == "not finite"


@pytest.mark.parametrize("name", FILES)
def test_the_command_line_refuses_a_value_that_is_no_number(name, tmp_path):
    container = CONTAINERS[name]
    if not container.installed:
        pytest.skip("its package is not installed")
    X = samples("tall")
    X[57, 4] = np.nan
    more = ["--memory", str(least_memory(X))] if container.scarce else []
    estimator = METHODS["greedy"].make()
    found = told(estimator, container.write(X, tmp_path), "greedy", *more)
    if found.refused in too_small(name):
        return
    assert found.refused == "not finite"
    # Which column it is; where a file has no names, by its number.
    assert any(name in found.words for name in ("column 4", "x5", "column number 5"))


@pytest.fixture(scope="module")
def empty():
    """Return a selector that keeps nothing."""
    selector = METHODS["spca-psd"].make(alpha=0.9, eta=0.9, n_features_to_select="support")
    with pytest.warns(UserWarning, match="empties the model"):
        return selector.fit(samples("tall"))


@pytest.mark.parametrize("name", IN_PYTHON)
def test_where_nothing_is_kept_nothing_is_left_of_any_container(name, empty, tmp_path):
    container = CONTAINERS[name]
    if not container.installed:
        pytest.skip("its package is not installed")
    X = samples("tall")
    held = container.make(X, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the result has no column
        assert contents(empty.transform(held)).shape == (len(X), 0)
    close(held)
