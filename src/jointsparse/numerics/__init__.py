"""What matrices must be: projections, the semidefinite cone, one sparse form, a variance."""
