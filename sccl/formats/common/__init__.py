"""The interface of formats, and the code that they share."""
