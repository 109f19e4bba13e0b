"""The figures of TACOS (Won et al., MICRO 2024), measured with our verifier and simulator."""
