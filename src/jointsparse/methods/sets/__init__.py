"""Sets of k features: which are allowed, which is best, and the proof of how good one is."""
