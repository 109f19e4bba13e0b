"""The explorer: a web page that animates algorithms, without network access."""
