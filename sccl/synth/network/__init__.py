"""What synthesisers of schedules share: machines and demands as arrays, and times none beats.

A machine becomes a net of ways from rank to rank, whose switches are passed, and a collective a
demand: who holds which chunk, who wants it. :mod:`.least` bounds the finish of any schedule of such
chunks from below; :mod:`.turned` turns schedules round in time, for what reduces.
"""
