"""Implement the functions and classes of ``import sccl``, whose results notebooks display.

Each class wraps a plain value of a lower layer (``.value``). The lower layers know nothing of files
and pictures.
"""
