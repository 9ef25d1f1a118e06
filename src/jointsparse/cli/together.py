"""The results of a command appear together, and what goes wrong says which of them are there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.start import retold, stopped


@contextmanager
def appear_together() -> Iterator[list[Path]]:
    """Yield a list that gets the files written within, once they appear: all at the end."""
    from jointsparse.io import atomic_set

    written: list[Path] = []
    with telling(written), atomic_set(written):
        yield written


@contextmanager
def telling(written: list[Path]) -> Iterator[None]:
    """Say in the message of what goes wrong now which files were written before."""
    from jointsparse.io import TableError

    try:
        yield
    except BrokenPipeError:
        raise
    except (TableError, OSError, CommandError) as error:
        sentence = str(error if isinstance(error, CommandError) else told(error))
        raise CommandError(f"{sentence.rstrip('.')}{_already(written)}") from error
    except KeyboardInterrupt as error:
        # When files are there the usual message, that nothing was written, would be wrong.
        message = f"{stopped(error)}{_already(written)}" if written else ""
        raise retold(error, message) from None


def _already(written: list[Path]) -> str:
    names = " and ".join(map(str, written))
    return f"; {names} {'was' if len(written) == 1 else 'were'} written before" if written else ""
