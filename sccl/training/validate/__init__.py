"""Checks of training plans: their schedule, costs, options, and bound."""
