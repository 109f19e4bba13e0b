"""Pricing of trees in steps: the cheapest tree at given prices, and a bound on its cost."""
