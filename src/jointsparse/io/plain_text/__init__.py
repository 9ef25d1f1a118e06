"""Tables written as text: its characters, its columns, its numbers; sheets become such text."""
