"""Chunks over ways as intervals in continuous time: problems, placement, models, improvement."""
