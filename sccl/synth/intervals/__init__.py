"""Chunks over ways as intervals in continuous time: what is planned, placed, modelled, bettered."""
