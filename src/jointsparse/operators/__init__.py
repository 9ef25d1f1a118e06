"""The samples as every kernel sees them: one operator, wherever they are kept."""
