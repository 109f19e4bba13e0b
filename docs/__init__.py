"""Documentation: pages, and the scripts that generate parts of them and of the site."""
