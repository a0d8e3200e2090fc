"""From groups of nodes to code that runs."""
