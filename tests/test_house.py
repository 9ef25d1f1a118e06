"""The house rules that a machine can check: nothing in ``src/`` grows out of hand."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import jointsparse

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "jointsparse"
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = 530
LONGEST_FUNCTION = 60  # without its docstring
LARGEST_ROOM = 15  # modules in a folder, beside its __init__: as many as are seen at a glance
# Modules of public estimators, which saved models name.
ESTIMATORS = {
    kind.__module__.removeprefix("jointsparse.").replace(".", "/") + ".py"
    for kind in (getattr(jointsparse, name) for name in jointsparse.__all__)
    if isinstance(kind, type) and issubclass(kind, BaseEstimator)
}


def lines_of(function):
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    documented = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
    return function.end_lineno - function.lineno + 1 - documented


def functions_in(text):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


@pytest.mark.skipif(not FILES, reason="the sources are not beside the tests")
def test_no_file_and_no_function_is_long():
    long = []
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        name = file.relative_to(SOURCE).as_posix()
        if len(text.splitlines()) > LONGEST_FILE:
            long.append(name)
        long += [
            f"{name}: {function.name}, {lines_of(function)} lines"
            for function in functions_in(text)
            if lines_of(function) > LONGEST_FUNCTION
        ]
    assert not long


def modules_in_rooms():
    """Return {folder: its modules}, without the modules of estimators.

    Saved models name those, so they stay in ``methods/``, however many there are.
    """
    rooms = {}
    for file in FILES:
        if file.name != "__init__.py" and file.relative_to(SOURCE).as_posix() not in ESTIMATORS:
            room = file.relative_to(SOURCE).parent.as_posix()
            rooms.setdefault(room, []).append(file.stem)
    return rooms


def test_no_room_is_crowded():
    crowded = {room: len(names) for room, names in modules_in_rooms().items()}
    assert not {room: count for room, count in crowded.items() if count > LARGEST_ROOM}


@pytest.mark.skipif(not FILES, reason="the sources are not beside the tests")
def test_beside_estimators_the_room_of_methods_has_the_registry_only():
    assert modules_in_rooms()["methods"] == ["registry"]


def test_every_room_says_what_it_is_for():
    rooms = {file.parent for file in FILES}
    silent = [
        room.relative_to(SOURCE).as_posix()
        for room in rooms
        if not ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    ]
    assert not silent


def test_the_lines_of_a_function_are_counted_without_its_docstring():
    text = 'def one():\n    """Two\n\n    lines.\n    """\n    return 1\n\n\ndef two(): ...\n'
    assert [lines_of(function) for function in functions_in(text)] == [2, 1]


def test_every_dependency_is_justified_in_one_line():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {re.match(r"[\w-]+", text)[0] for group in groups for text in group}
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    cells = re.findall(r"^\| ([^|]*) \| [^|]+ \|$", page, flags=re.MULTILINE)
    justified = {name for cell in cells for name in re.findall(r"[\w-]+", cell.split("*")[0])}
    assert not wanted - {"jointsparse"} - justified


def test_every_dependency_has_a_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    unbound = [t for group in groups for t in group if ">=" not in t and t != "jointsparse[test]"]
    assert not unbound


@pytest.mark.skipif(not FILES, reason="the sources are not beside the tests")
def test_eigenpairs_of_large_matrices_come_from_one_room():
    solvers = re.compile(r"\b(eigsh?|lobpcg|svds)\b\(")
    asking = [file for file in FILES if solvers.search(file.read_text(encoding="utf-8"))]
    assert {file.parent.name for file in asking} == {"eigen"}
