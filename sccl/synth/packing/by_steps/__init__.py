"""The limit of R/C for a number of steps, over all k and all C, with proofs."""
