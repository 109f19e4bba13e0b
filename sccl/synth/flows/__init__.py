"""Bytes that flow over ways in slots of time, and schedules of what is found.

What is packed, slots and what may follow on what in them, the program of what is not copied, and
chunks that are sent in the order of a packing. It serves synthesisers, and plans nothing itself.
"""
