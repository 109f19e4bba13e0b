"""The time that no chunking beats, and a schedule near it: a fluid packing of timed trees."""
