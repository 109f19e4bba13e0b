"""The command line: one file per verb; parsing, printing and exit codes, no logic."""
