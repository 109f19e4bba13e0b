"""Data types: topology, collective, instance, algorithm, answer, cost, and their JSON files."""
