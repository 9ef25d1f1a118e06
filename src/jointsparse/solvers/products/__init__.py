"""Products with samples and with their scatter matrix, wherever they are."""
