"""Examples that pages of the documentation run."""
