"""TE-CCL: collectives as flows of chunks over time: in epochs, or as intervals on links."""
