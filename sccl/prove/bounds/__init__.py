"""Lower bounds on steps and on R/C, each with a proof that anyone can re-check."""
