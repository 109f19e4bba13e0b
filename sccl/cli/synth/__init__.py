"""The verbs ``sccl synth ...``: plans of a single method."""
