"""The interface of importers, and the code that they share."""
