"""Packings of timed trees by steps and by time: problems, slots, prices, and their schedules."""
