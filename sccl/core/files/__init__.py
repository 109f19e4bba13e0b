"""Files of the core data types: shapes, JSON text, and reading and writing."""
