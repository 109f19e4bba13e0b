"""SCCL: k-synchronous algorithms, by models of SYNCOLL, several solvers, and a sweep."""
