"""Lower bounds on steps, on R/C, and on time, each with a proof that can be checked."""
