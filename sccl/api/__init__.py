"""What ``import sccl`` offers: results that show themselves, in a notebook and elsewhere.

Each class here wraps a value of the rooms below (``.value``) instead of adding to it: the values
stay plain, and know nothing of files and pictures.
"""
