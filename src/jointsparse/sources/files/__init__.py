"""Samples in files: a module for each way in which they are stored, and one that writes them."""
