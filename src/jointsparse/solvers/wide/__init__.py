"""The convex model with many more features than samples: never a p × p matrix."""
