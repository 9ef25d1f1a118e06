"""Robust columns and samples: what gross values can do is bounded before anything is summed up."""
