"""The trusted base: certificates checked without a solver, in plain Python and exact integers.

:mod:`sccl.prove.check.certificate` checks them, and each synthesiser's ``certify`` writes them.
Nothing is imported here, so that who needs the shapes of files alone loads no more.
"""
