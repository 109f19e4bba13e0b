"""File shapes and codecs of workloads, fabrics, recordings, and training plans."""
