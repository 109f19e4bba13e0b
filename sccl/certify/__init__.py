"""Certificates of frontiers: written for anyone to check, and checked without trusting a solver.

:mod:`sccl.certify.write` writes them, :mod:`sccl.certify.check` checks them; they are imported from
there, so that who needs the shapes of files alone does not load solvers.
"""
