"""Graphs of the samples: neighbours, Laplacians and what methods build on them, always sparse."""
