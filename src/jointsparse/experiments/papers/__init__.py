"""One file for each source; each lists its experiments as ``EXPERIMENTS``."""
