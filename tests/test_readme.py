import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_snippets_run(capsys):
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), {})
    assert "of the optimum" in capsys.readouterr().out


def test_the_two_set_up_commands():
    commands = [block.strip() for block in blocks("bash") if block.startswith("pip install")]
    assert commands == ["pip install . && jointsparse select", "pip install '.[test]' && pytest"]


def test_every_method_is_in_the_table():
    from jointsparse import registry

    for name, method in registry.methods().items():
        assert f"| `{name}` | `{type(method.make()).__name__}` |" in README
