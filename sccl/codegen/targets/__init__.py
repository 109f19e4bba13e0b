"""Generate code for each target: MPI on the host, CUDA, and HIP."""
