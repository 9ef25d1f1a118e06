"""The house rules that a machine can check: nothing in ``src/`` grows out of hand."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "jointsparse"
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = 500
LONGEST_FUNCTION = 60  # without its docstring


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
