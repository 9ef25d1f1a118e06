"""What is published says the same everywhere: version, dependencies, commands."""

import re
import tomllib
from pathlib import Path

import pytest

import jointsparse

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
WORKFLOWS = ROOT / ".github" / "workflows"
OTHER_NAMES = {"matplotlib": "matplotlib-base"}  # on conda-forge, without the windows


def test_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == jointsparse.__version__
    assert RECIPE["context"]["version"] == jointsparse.__version__


def test_the_changelog_begins_with_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\]", changelog, flags=re.MULTILINE)
    assert jointsparse.__version__ in sections[:2]  # "Unreleased" may stand before it


def test_the_recipe_has_the_dependencies():
    wanted = {
        f"{OTHER_NAMES.get(name, name)} {bound}"
        for name, bound in (
            re.fullmatch(r"([\w-]+)(>=[\d.]+)", line).groups() for line in PROJECT["dependencies"]
        )
    }
    found = set(RECIPE["requirements"]["run"]) - {"python >=${{ python_min }}"}
    assert found == wanted
    assert PROJECT["requires-python"] == ">=" + RECIPE["context"]["python_min"]


def test_the_recipe_has_the_command():
    (entry,) = RECIPE["build"]["python"]["entry_points"]
    name, target = entry.split(" = ")
    assert PROJECT["scripts"] == {name: target}


@pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="an sdist has no workflows")
def test_workflows_run_what_the_whole_check_runs():
    whole = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in ("pytest", "mypy", "lint-imports", "jointsparse select"):
        steps = [
            step.get("run", "")
            for path in WORKFLOWS.glob("*.yml")
            for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
            for step in job["steps"]
        ]
        assert command in steps
        assert command in whole
    publish = (WORKFLOWS / "publish.yml").read_text(encoding="utf-8")
    assert ".ci/package" in publish
    assert ".ci/package" in whole
