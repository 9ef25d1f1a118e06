"""The best set of k features, and proofs of how good a set is."""
