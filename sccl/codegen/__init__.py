"""Generated code: an algorithm becomes programs of its ranks and C++, CUDA, or HIP projects."""
