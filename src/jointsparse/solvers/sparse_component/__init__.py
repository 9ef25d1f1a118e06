"""One sparse component with a proof: bounds, elimination, good supports, search."""
