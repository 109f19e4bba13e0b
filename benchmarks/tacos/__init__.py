"""The figures of TACOS (Won et al., MICRO 2024), measured anew by our judge and simulator."""
