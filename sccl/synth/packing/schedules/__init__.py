"""Pack bytes on paths in slots of time, and convert packings to schedules.

This package has the packing problem, the slots and the order between them, the linear program for
data that are not copied, and the placement of chunks in the order of a packing. Synthesizers use
it. It plans nothing itself.
"""
