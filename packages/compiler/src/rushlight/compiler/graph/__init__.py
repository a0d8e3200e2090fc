"""The graph of a captured program."""
