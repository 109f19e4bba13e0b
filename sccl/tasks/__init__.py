"""Implement whole tasks, from the request to the result, for the command line and the API."""
