"""Errors that the command line reports in one sentence, and the command group that does it."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import typer

from jointsparse.cli.display.console import print_error, print_warning
from jointsparse.cli.helping import PlainGroup
from jointsparse.cli.start import status_of, stopped

USAGE_STATUS = 2
LOOP = "is a link that leads back to itself"
PIPE_STATUS = 141  # as shells give for SIGPIPE

# For developers; a person at the command line cannot act on them.
SILENT_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)

# The parser's own errors (unknown option, value of the wrong type). Typer exports only this
# subclass, from a place that differs between versions.
_UsageError = cast(type[Exception], typer.BadParameter.__base__)


class CommandError(Exception):
    """The user can fix this; the message is one sentence and needs no traceback."""


def told(
    error: Exception, *, about: str = "", method: str | None = None, **options: str
) -> CommandError:
    """Return an error of the library as one sentence in the words of the command line.

    An error that knows the sentence itself has it in ``cure_option``.

    Parameters
    ----------
    error : Exception
        What the library raised, and the user can fix.
    about : str
        What the sentence begins with, such as the option it is about.
    method : str or None
        Name of the method that was at work.
    **options
        Parameters that have an option in this command only.
    """
    from jointsparse.cli.words import in_options

    known: str | None = getattr(error, "cure_option", None)
    sentence = in_options(str(error), method, options) if known is None else known
    if sentence.startswith(about.rstrip(": ")):
        about = ""  # it begins with the option anyway
    return CommandError(f"{about}{sentence}")


@contextmanager
def warnings_in_options() -> Iterator[None]:
    """Print each warning that nobody collects once, as one line in the words of options."""
    seen = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        from jointsparse.cli.words import in_options

        text = in_options(str(message))
        if text not in seen and not issubclass(category, SILENT_WARNINGS):
            seen.add(text)
            print_warning(text)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


class OneSentenceGroup(PlainGroup):
    """Command group that turns errors of use into one line on stderr and an exit status.

    Status 2 stands for an error in the command, its input or what is around it (a full disk, too
    little memory), 130 for Ctrl-C, 143 for SIGTERM. Every other exception is a bug and keeps its
    traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report what the user can fix."""
        try:
            with warnings_in_options():
                return super().invoke(ctx)
        except CommandError as error:
            print_error(str(error))
            raise typer.Exit(USAGE_STATUS) from error
        except KeyboardInterrupt as error:
            raise self._ended(error) from error
        except MemoryError as error:
            print_error(
                "there is not enough memory for this; use fewer columns or samples, or see what "
                "--memory does"
            )
            raise typer.Exit(USAGE_STATUS) from error
        except BrokenPipeError:
            raise  # who reads the output has seen enough
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            print_error(f"stopped: {where}{error.strerror or error}")
            raise typer.Exit(USAGE_STATUS) from error
        except RuntimeError as error:
            # What Python before 3.13 says of a path that it cannot follow to its end.
            if not str(error).startswith("Symlink loop"):
                raise
            print_error(f"stopped: {str(error).removeprefix('Symlink loop from ')} {LOOP}")
            raise typer.Exit(USAGE_STATUS) from error

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments; a signal ends this as it ends the command."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt as error:
            raise self._ended(error) from error

    def _ended(self, error: KeyboardInterrupt) -> Exception:
        # The base class would end without a word, and always as if by Ctrl-C.
        print_error(str(error) or f"{stopped(error)}; nothing was written")
        return typer.Exit(status_of(error))

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
            print_error(cast(Any, error).format_message().replace(": Value error, ", ": "))
            status = USAGE_STATUS
        except BrokenPipeError:
            if not standalone_mode:
                raise
            _discard_output()
            status = PIPE_STATUS
        if not standalone_mode:
            return status
        sys.exit(_flushed(status if isinstance(status, int) else 0))


def _flushed(status: int) -> int:
    """Write what is still to be printed; return the exit status, another one if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return PIPE_STATUS
    except OSError as error:
        _discard_output()
        print_error(f"the output cannot be written: {error.strerror or error}")
        return USAGE_STATUS
    return status


def _discard_output() -> None:
    """Keep Python from trying again, with a traceback, when it ends."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the end
