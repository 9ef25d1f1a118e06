"""What is given to ``fit``: checked, prepared, and read as a method needs it."""
