"""Draw machines."""
