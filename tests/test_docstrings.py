"""Public docstrings are true: parameters, defaults, mathematics first, an example."""

import ast
import inspect
import re

import pytest

import jointsparse
from jointsparse import datasets, metrics, plotting, registry

MODULES = (jointsparse, datasets, metrics, plotting)
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if callable(getattr(module, name))
}
each_public = pytest.mark.parametrize("name", sorted(PUBLIC))


def section(text, title):
    """Return a section of a numpydoc docstring."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def documented(text):
    """Return {parameter: default as it is written, or None}."""
    found = {}
    entries = re.findall(r"^(\*{0,2}\w[\w, *]*?)(?: : (.*))?$", section(text, "Parameters"), re.M)
    for names, kind in entries:
        default = re.search(r"default=(.*)$", kind or "")
        for name in names.split(","):
            found[name.strip(" *")] = default and default[1].strip()
    return found


def parameters(thing):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(thing).parameters.items()
        if name != "self"
    }


def is_display_or_result(thing):
    """Whether users get objects of this class from a function, and do not build them."""
    return inspect.isclass(thing) and not hasattr(thing, "fit")


@each_public
def test_parameters_and_defaults_are_those_of_the_signature(name):
    thing = PUBLIC[name]
    written, real = documented(inspect.getdoc(thing)), parameters(thing)
    if is_display_or_result(thing):
        assert set(written) <= set(real)
    else:
        assert list(written) == list(real)
    for parameter, text in written.items():
        default = real[parameter]
        if text is None:
            assert default in (inspect.Parameter.empty, None), parameter
            continue
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            pytest.fail(f"{parameter}: the default {text} is no value of Python")
        assert value == default, f"{parameter}: {text} is written, {default!r} is true"


@each_public
def test_there_is_an_example(name):
    if not is_display_or_result(PUBLIC[name]):
        assert ">>>" in section(inspect.getdoc(PUBLIC[name]), "Examples")


@pytest.mark.parametrize("name", sorted({m.class_name for m in registry.methods().values()}))
def test_methods_begin_with_their_mathematics(name):
    text = inspect.getdoc(getattr(jointsparse, name))
    assert ".. math::" in text.partition("\nParameters\n")[0]
    assert section(text, "References")
