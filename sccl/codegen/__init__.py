"""Generate code: programs of ranks from algorithms, and C++, CUDA, or HIP projects."""
