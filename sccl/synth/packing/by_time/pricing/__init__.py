"""Pricing of timed trees: the cheapest tree at given prices of links and slots."""
