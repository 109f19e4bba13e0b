"""Charts of frontiers, times and measurements."""
