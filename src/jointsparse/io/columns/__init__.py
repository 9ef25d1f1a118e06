"""What the columns of a table are: how they are laid out, which are features, what they become."""
