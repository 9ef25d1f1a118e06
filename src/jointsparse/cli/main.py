"""Entry point of the ``jointsparse`` command.

Everything that takes time to import is imported inside the commands, so that ``--help`` is quick.
"""

import logging
from typing import Annotated

import typer

from jointsparse import __version__
from jointsparse.cli.commands import compare as compare_command
from jointsparse.cli.commands import methods as methods_command
from jointsparse.cli.commands import path as path_command
from jointsparse.cli.commands import report as report_command
from jointsparse.cli.commands import reproduce as reproduce_command
from jointsparse.cli.commands import select as select_command
from jointsparse.cli.commands import transform as transform_command
from jointsparse.cli.display.console import PROGRAM
from jointsparse.cli.errors import OneSentenceGroup
from jointsparse.cli.helping import PlainCommand
from jointsparse.cli.options.shared import as_command

app = typer.Typer(
    name=PROGRAM,
    cls=OneSentenceGroup,
    help="Which few original features of a table matter: rank and keep them, without labels.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("select", cls=PlainCommand, help=select_command.HELP)(as_command(select_command.select))
app.command("transform", cls=PlainCommand, help=transform_command.HELP)(
    as_command(transform_command.transform)
)
app.command("compare", cls=PlainCommand, help=compare_command.HELP)(
    as_command(compare_command.compare)
)
app.command("path", cls=PlainCommand, help=path_command.HELP)(as_command(path_command.path))
app.command("methods", cls=PlainCommand, help=methods_command.HELP)(methods_command.methods)
app.command("report", cls=PlainCommand, help=report_command.HELP)(report_command.report)
app.command("reproduce", cls=PlainCommand, help=reproduce_command.HELP)(
    as_command(reproduce_command.reproduce)
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top_level(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Show the help when no command is given."""
    # That it has no folder to keep fonts in is nothing a user of this program can act on.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    from jointsparse.cli import start

    start.main()


if __name__ == "__main__":
    main()
