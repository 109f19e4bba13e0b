"""Results as text: tables, sentences and notes."""
