"""Networks of ASTRA-sim for its analytical backend and for ns-3."""
