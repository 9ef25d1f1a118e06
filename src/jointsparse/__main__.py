"""``python -m jointsparse``: the same as the ``jointsparse`` command."""

from jointsparse.cli.start import main

if __name__ == "__main__":
    main()
