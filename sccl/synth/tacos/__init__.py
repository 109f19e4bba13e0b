"""TACOS: links are matched with chunks, span by span of a time-expanded network, at any size."""
