"""Options that commands share, a module for each group: their words, checks and what they do."""
