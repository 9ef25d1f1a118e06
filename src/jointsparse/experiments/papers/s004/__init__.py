"""Source 004 (SPCA-PSD), a module for each of its tables and figures."""
