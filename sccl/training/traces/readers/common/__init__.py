"""The interface of trace readers, and the code that they share."""
