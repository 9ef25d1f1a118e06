"""Samples in Dask collections: on a cluster, or in a graph that this machine computes."""
