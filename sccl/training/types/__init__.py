"""Types of training: workloads and their operations, motifs, fabrics, and training plans."""
