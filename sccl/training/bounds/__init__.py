"""Lower bounds on the time of a training step and on the period of repeated steps."""
