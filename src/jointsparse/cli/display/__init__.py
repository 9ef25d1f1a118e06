"""What is shown: the answer as text and as JSON, the next command, progress."""
