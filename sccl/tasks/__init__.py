"""Whole tasks, from what is asked to what is shown: shared by the command line and the API."""
