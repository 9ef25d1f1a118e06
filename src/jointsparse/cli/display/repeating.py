"""The command that was given, as text that can be pasted into a terminal again."""

import shlex
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from typer.models import OptionInfo

from jointsparse.cli.display.console import PROGRAM, as_given


def command_of(name: str, options: Any, **changed: Any) -> str:
    """Return the command line that stands for options: those that are not as by default.

    Parameters
    ----------
    name : str
        Of the command, such as "select".
    options : dataclass
        Fields annotated as Typer's options and arguments.
    **changed : object
        Other values of some fields.
    """
    hints = get_type_hints(type(options), include_extras=True)
    words, after = [PROGRAM, name], []  # what has no flag comes first, as people write it
    for field in fields(options):
        value = changed.get(field.name, getattr(options, field.name))
        if value is None or value == field.default:
            continue
        flag = _flag(hints[field.name])
        for one in value if isinstance(value, list) else [value]:
            # Of an enumeration the text is its value.
            text = f"{one:g}" if isinstance(one, float) else as_given(str(one), "-")
            if flag:
                after += [flag] if one is True else [flag, text]
            else:
                words.append(text)
    return shlex.join([*words, *after])


def _flag(hint: Any) -> str:
    """Return how an option is written; nothing for an argument."""
    for part in get_args(hint)[1:]:
        # In an annotation Typer takes what stands first, else a default, for the name.
        if isinstance(part, OptionInfo):
            names = map(str, (part.default, *(part.param_decls or ())))
            return next(name for name in names if name.startswith("--"))
    return ""
