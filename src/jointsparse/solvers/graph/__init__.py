"""Selectors that look at neighbours of samples."""
