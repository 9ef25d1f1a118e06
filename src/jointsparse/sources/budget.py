"""How much memory a computation may take: the amounts that reading a table knows, for sources."""

from jointsparse.io.budget import available_memory, default_budget, parse_size, size_in_words

__all__ = ["available_memory", "default_budget", "parse_size", "size_in_words"]
