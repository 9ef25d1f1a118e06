"""Beyond the sources: questions that they leave open, a module each."""
