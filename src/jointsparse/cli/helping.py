"""Help that people read: an option that takes no value is shown without one."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _PlainFlags:
    """Shows ``--quiet`` and not ``--quiet <bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, ``--help`` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class PlainCommand(_PlainFlags, TyperCommand):
    """A command whose flags are shown as such."""


class PlainGroup(_PlainFlags, TyperGroup):
    """A group of commands whose flags are shown as such."""
