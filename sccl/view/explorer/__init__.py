"""The explorer: one page that plays algorithms, offline."""
