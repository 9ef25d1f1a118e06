"""Several sparse components at once, with one proof for their sum."""
