import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_snippets_run(capsys):
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "Good stand-ins for the rest: 10 features predict" in printed
    assert "solved to within" in printed


def test_the_two_set_up_commands():
    commands = [block.strip() for block in blocks("bash") if block.startswith("pip install")]
    assert commands == ["pip install . && jointsparse select", "pip install '.[test]' && pytest"]


def test_the_table_names_methods_that_exist():
    from jointsparse import registry

    rows = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", README, flags=re.MULTILINE)
    assert rows
    for name, class_name in rows:
        assert registry.methods()[name].class_name == class_name
