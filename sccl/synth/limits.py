"""Limits and tolerances that several synthesizers share."""

from __future__ import annotations

INFINITE = 1 << 60
"""Later than any tick and more expensive than any tree. The sum of seven stays within 64 bits."""

MAX_CAPACITY = 2**50
"""Largest capacity or cost in a model: CP-SAT adds some thousands of them in 64 bits."""

MAX_LOAD = 2**40
"""Largest coefficient of a load constraint: CP-SAT adds some millions of them in 64 bits."""

PRICE_SCALE = 1 << 30
"""Largest price of a send as an integer. 256 trees of 1,024 sends stay below ``MAX_CAPACITY``."""

TOLERANCE = 1e-6
"""Relative gap that counts as none. GLOP's own tolerance is 1e-6."""

MIN_GAIN = 1e-4
"""Relative gain below which a search stops refining: results are printed with four digits."""

MAX_SENDS = 2**20
"""Sends of a schedule in Python objects. An allreduce of 256 ranks in eight chunks has 1,044,480
and takes 20 s."""

MAX_REFINED_SENDS = 200_000
"""Sends of a schedule that is rounded or placed several times. A placement takes 0.6 s."""

MAX_TABLE_ROWS = 2**22
"""Rows of a table of sends, or of pairs of ranks: 25 bytes each make 100 MB."""

MAX_PAIRED_RANKS = 4096
"""Ranks up to which the distances of all pairs are stored: 128 MB."""

MAX_SEARCH_RANKS = 32
"""Ranks up to which packings and solvers find fewer chunks than constructions in the same time."""

MAX_CUT_RANKS = 64
"""Ranks up to which cuts, joint relays, and tree limits are computed: a limit of trees on
``mesh:8x8`` takes 15 s."""

MAX_PROGRAM_RANKS = 256
"""Ranks up to which programs with a row for each pair of ranks are built: they take minutes
beyond."""

MAX_VARIABLES = 3_000_000
"""Variables of a model. CP-SAT takes about 1 KB for each, so more do not fit in 4 GB."""

MAX_COLUMNS = 600_000
"""Columns of a linear program. Larger programs take minutes."""

MAX_INTERVALS = 12_000
"""Intervals of a CP-SAT model. Presolve of larger models takes longer than the default budget."""

WORK_PER_CALL = 2_000_000
"""Work of one call of a compiled loop, after which Ctrl-C is heard: links, words, or rounds of
transfers. A call takes up to 0.3 s."""

SENDS_PER_CALL = 100_000
"""Transfers placed in one call of a compiled loop, after which Ctrl-C is heard: 0.1 s."""

ELEMENT_EFFORT = 3e-9
"""Budget of one element of an array, in the unit of CP-SAT's deterministic time, which takes one to
five seconds. It is an estimate that does not depend on the load of a machine."""
