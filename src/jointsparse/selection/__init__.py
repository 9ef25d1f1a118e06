"""From a fitted model to a set of features, and the answer in plain words."""
