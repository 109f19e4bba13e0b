"""Options of a collective in a training step: motifs, links that carry them, and costs."""
