"""The trusted base: certificates checked without a solver, in plain Python and exact integers.

:mod:`sccl.prove.check.certificate` checks them, and each synthesizer's ``certify`` writes them.
Nothing is imported here, so that code that needs only the file shapes loads nothing else.
"""
