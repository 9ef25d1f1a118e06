"""Samples whose values are changed when they are read: filled, centred, scaled, logarithms."""
