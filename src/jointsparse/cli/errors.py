"""Errors that the command line reports in one sentence, and the command group that does it."""

import sys
from collections.abc import Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup

from jointsparse.cli.console import print_error

USAGE_STATUS = 2
INTERRUPTED_STATUS = 130

# The parser's own errors (unknown option, value of the wrong type). Typer exports only this
# subclass, from a place that differs between versions.
_UsageError = cast(type[Exception], typer.BadParameter.__base__)


class CommandError(Exception):
    """The user can fix this; the message is one sentence and needs no traceback."""


class OneSentenceGroup(TyperGroup):
    """Command group that turns errors of use into one line on stderr and an exit status.

    Status 2 stands for an error in the command or its input, 130 for Ctrl-C. Every other
    exception is a bug and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report what the user can fix."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            print_error(str(error))
            raise typer.Exit(USAGE_STATUS) from error
        except KeyboardInterrupt as error:
            print_error(str(error) or "interrupted; nothing was written")
            raise typer.Exit(INTERRUPTED_STATUS) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse the arguments and run; leave with the status when standing alone."""
        try:
            # Standing alone, the base class would print its own, longer kind of error.
            status = super().main(
                args=args,
                prog_name=prog_name,
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except _UsageError as error:
            if not standalone_mode:
                raise
            print_error(cast(Any, error).format_message())
            status = USAGE_STATUS
        if not standalone_mode:
            return status
        sys.exit(status if isinstance(status, int) else 0)
