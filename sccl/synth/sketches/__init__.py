"""Communication sketches (TACCL): the type, its file, and its shape."""
