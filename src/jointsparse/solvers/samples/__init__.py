"""Losses that sum over samples: CSPCA and AW-SPCA, in memory and in passes."""
