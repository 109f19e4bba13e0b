"""The documents: pages, and what makes parts of them and of the site."""
