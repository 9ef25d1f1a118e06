"""The ``jointsparse`` command: parsing and printing only."""
