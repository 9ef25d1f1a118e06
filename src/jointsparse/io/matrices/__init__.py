"""Matrices in files: bare ones of NumPy and Matrix Market, annotated ones, folders of 10x."""
