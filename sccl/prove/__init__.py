"""Lower bounds, certificates, and the check of every claim."""
