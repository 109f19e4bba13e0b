"""The verbs ``sccl synth ...``: a plan by one method."""
