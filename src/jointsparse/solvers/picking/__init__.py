"""Which features: greedy picking, what is noise, what a set predicts."""
