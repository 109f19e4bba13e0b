"""The golden tests: behavior of the whole program, frozen in ``records`` (see ``records.py``)."""
