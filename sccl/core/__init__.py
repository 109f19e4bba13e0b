"""The nouns: topology, collective, instance, algorithm, answer, cost, and their JSON."""
