"""The limit of R/C for a number of steps, over all k and all C, with certificates.

It names nothing here: whoever needs the points alone must not load the solvers.
"""
