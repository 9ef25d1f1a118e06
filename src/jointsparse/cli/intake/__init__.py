"""From a file to what is fitted: in memory, in blocks, or some of the features."""
