"""Generated inputs for every method and reader: ``python -m fuzz --estimators 999 --files 999``.

Every case is made from a number, so a case that fails can be run again by itself:
``python -m fuzz --estimators 1 --first NUMBER``.
"""
