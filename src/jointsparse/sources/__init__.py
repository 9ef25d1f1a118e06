"""Samples that need not be at hand all at once: arrays, files, folders, clusters.

A :class:`Source` hands out blocks of rows; everything that sums over samples goes through its one
door, :meth:`Source.reduce`. :func:`open_source` opens files, :func:`as_source` takes anything.
"""

from jointsparse.io.budget import parse_size
from jointsparse.sources.base import Source
from jointsparse.sources.opening import as_source, is_streamed, open_source

__all__ = ["Source", "as_source", "is_streamed", "open_source", "parse_size"]
