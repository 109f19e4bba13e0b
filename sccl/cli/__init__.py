"""The command line: one file per verb, for parsing, printing and exit codes, without logic."""
