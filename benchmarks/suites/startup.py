"""Starting up: the import, and the command line."""

from benchmarks.tasks import OURS, Bar, Problem, Task, ratios

COMMANDS = {
    "jointsparse --help": ["--help"],
    "jointsparse methods": ["methods"],
    "jointsparse select (bundled table)": ["select"],
}
CALL = "import sys; from jointsparse.cli.main import main; sys.argv = {!r}; main()"


def imports(quick):
    return [Problem("startup", "import", "import", None, {})]


def commands(quick):
    problems = []
    for name, words in list(COMMANDS.items())[: 1 if quick else None]:
        code = CALL.format(["jointsparse", *words])
        problems.append(Problem("startup", "command", name, None, {"code": code}))
    return problems


def bars(outcomes):
    found = ratios(outcomes, "scikit-learn")
    words = ", ".join(f"{ratio:.1f}×" for ratio in found.values())
    met = min(found.values()) > 1 if found else None
    return [Bar("Importing jointsparse is faster than importing scikit-learn", words, met)]


TASKS = (
    Task(
        suite="startup",
        name="import",
        title=f"Importing {OURS} in a new process",
        problems=imports,
        load=lambda problem: {},
        evaluate=lambda data, params, result: {},
        bars=bars,
        notes="The start of Python is in all of them.",
    ),
    Task(
        suite="startup",
        name="command",
        title="Commands",
        problems=commands,
        load=lambda problem: {},
        evaluate=lambda data, params, result: {},
        notes="Beside it, the bare start of Python.",
    ),
)
