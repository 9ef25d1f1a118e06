"""Where the ``jointsparse`` command begins: from the first moment on, signals end it in order.

Nothing is imported at the top but what Python has loaded already.
"""

import os
import signal
import sys
from types import FrameType

PROGRAM = "jointsparse"
SIGNALLED = 128  # added to the number of a signal, it is the exit status that shells give


class Terminated(KeyboardInterrupt):
    """The program was asked to end, by SIGTERM or a closed terminal; it cleans up as for Ctrl-C."""

    number = int(signal.SIGTERM)


def main() -> None:
    """Run the command line."""
    _listen()
    # jemalloc, which Arrow 16 and 17 would take, keeps what was freed: 45 MB of 30 allowed.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    try:
        from jointsparse.cli.main import app

        app(prog_name=PROGRAM)
    except KeyboardInterrupt as error:
        # Before the command has begun, or after it has ended.
        sys.stderr.write(f"{PROGRAM}: {stopped(error)}.\n")
        sys.exit(status_of(error))


def stopped(error: KeyboardInterrupt) -> str:
    """Return in a word what ended the program."""
    return "terminated" if isinstance(error, Terminated) else "interrupted"


def retold(error: KeyboardInterrupt, sentence: str) -> KeyboardInterrupt:
    """Return the same end with another sentence."""
    other = type(error)(sentence)
    if isinstance(error, Terminated) and isinstance(other, Terminated):
        other.number = error.number
    return other


def status_of(error: KeyboardInterrupt) -> int:
    """Return the exit status of a program that a signal ended."""
    return SIGNALLED + (error.number if isinstance(error, Terminated) else int(signal.SIGINT))


def _listen() -> None:
    """Turn the signals that ask for an end into exceptions, which delete temporary files."""
    for name in ("SIGTERM", "SIGHUP"):  # Windows has the first only
        number = getattr(signal, name, None)
        # Who started the program with nohup wants it to go on.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what is under way now is tidying up
    error = Terminated()
    error.number = number
    raise error
