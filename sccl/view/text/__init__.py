"""Show results as text: tables, sentences and notes."""
