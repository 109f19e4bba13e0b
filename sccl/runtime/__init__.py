"""Build generated projects, run them under MPI, measure them, and tune them."""
