"""Limits, tolerances, and budgets that several synthesizers share.

Budgets are in units of CP-SAT's deterministic time, which take one to five seconds. They do not
depend on the load of a machine.
"""

from __future__ import annotations

INFINITE = 1 << 60
"""Later than any tick and more expensive than any tree. The sum of seven stays within 64 bits."""

MAX_CAPACITY = 2**50
"""Largest capacity of a resource, and largest cost of a tree: sums of 8,191 stay within 64 bits."""

MAX_LOAD = 2**40
"""Largest coefficient of a load constraint: sums of 8 million stay within 64 bits."""

PRICE_SCALE = 1 << 26
"""Largest price of a send as an integer: the costs of trees stay below ``MAX_CAPACITY``. With
1 << 30 the allgather on ``z52-pcie`` with S = 6 loses an optimal algorithm."""

TIME_PRICE_SCALE = PRICE_SCALE << 4
"""Largest price of a send in a slot as an integer. With ``PRICE_SCALE``, the lower bound on the
time of an allgather on ``z52-pcie`` loses 5e-7 of its value."""

TOLERANCE = 1e-6
"""Relative gap that counts as none: GLOP solves to a tolerance of 1e-6."""

MIN_GAIN = 1e-4
"""Relative gain below which a refinement ends. Tables print times with three or four digits."""

MIN_SHARE = 1e-3
"""Smallest share of a time, a bandwidth, or a commodity that counts."""

SLACK_DIVISOR = 10
"""A remainder of a tenth of a slot takes no further slot. A short alpha would cost a long slot."""

BOUND_SLOTS = 12
"""Slots into which a lower bound is divided first, and additional slots that are tried."""

EFFORT_PARTS = 4
"""Parts of a budget. One program, sketch, or plan takes at most one, so others have their turn."""

MAX_PASSES = 8
"""Passes of an improvement heuristic. Alltoall on tori needs two."""

MAX_IDLE = 3
"""Consecutive rounds without a gain after which a search ends."""

REPEATS = 4
"""Repetitions of a random pass with each of its parameters."""

MAX_TRIES = 16
"""Candidates of which the best is kept. The lowest trees of ``torus:16x16`` have 22 to 24 steps,
others 26."""

MAX_ITERATIONS = 2_000
"""Rounds, nodes, or plans of an exact search, which is not limited by seconds: its result must not
depend on the load of a machine. Branch and bound on ``ndv2x2`` takes four nodes on average."""

# Sizes of schedules and tables.

MAX_SENDS = 2**20
"""Sends or paths that are Python objects. An allreduce of 256 ranks in eight chunks has 1,044,480
sends and takes 20 s."""

MAX_REFINED_SENDS = 200_000
"""Sends of a schedule that is rounded, or placed several times: one placement takes 0.6 units."""

MAX_PLACED_SENDS = 2**16
"""Sends that are placed one by one in Python: some seconds."""

MAX_TABLE_ROWS = 2**22
"""Rows of a table of sends or of pairs of ranks: 25 bytes each make 100 MB."""

MAX_LINKS = 2**14
"""Links up to which triangles of links are searched, and bounds are cached."""

MAX_SUBSET = 10
"""Elements of which all subsets are examined. DGX-1 has 8 ranks, and tables grow as 3**n."""

FEW_CHUNKS = 32
"""Chunks of an algorithm near a limit, and those of one at a limit from which fewer are sought."""

MAX_REQUESTED = 65_536
"""Pieces of a chunk or symmetries of a sketch that a user may request: guards against slips."""

MAX_MULTIPLIED_CHUNKS = 512
"""Chunks of a packing that is multiplied out, and symmetries whose images of a tree are written."""

# Ranks.

MAX_SMALL_RANKS = 20
"""Ranks up to which single trees, and alltoalls of fewer chunks, are searched."""

MAX_SEARCH_RANKS = 32
"""Ranks up to which packings and solvers find fewer chunks than constructions in the same time."""

MAX_CUT_RANKS = 64
"""Ranks up to which cuts and limits of trees are computed, and certificates state no symmetries.
``mesh:8x8`` takes 15 s."""

MAX_PROGRAM_RANKS = 256
"""Ranks up to which programs have rows for pairs of ranks."""

MAX_PAIRED_RANKS = 4096
"""Ranks up to which the distances of all pairs are stored: 128 MB."""

# Sizes of models.

MAX_SMALL_MODEL = 60_000
"""Chunks times links times steps up to which a quick search comes first: it takes up to 0.2 s."""

MAX_MODEL = 200_000
"""Size of a model that is built without a request for it: chunks times links times steps or
epochs."""

MAX_INTERVALS = 12_000
"""Intervals of a CP-SAT model of a whole schedule. Larger ones are solved in neighborhoods."""

MAX_COLUMNS = 600_000
"""Columns of a linear program. Larger programs take minutes."""

MAX_VARIABLES = 3_000_000
"""Variables of a model. Larger ones do not fit in memory, and none was solved."""

MAX_TABLE_WORK = 30_000_000
"""Ranks times links times steps of one tree, entries of a table, or sends that are verified: more
take minutes."""

MAX_WORK = 1.5e10
"""Elementary operations of a construction, of about a nanosecond."""

# Compiled loops, between whose calls Ctrl-C is noticed.

WORK_PER_CALL = 2_000_000
"""Links or words that a call examines: up to 0.3 s."""

SENDS_PER_CALL = 100_000
"""Transfers that a call places: about 0.1 s."""

# Budgets.

ELEMENT_EFFORT = 3e-9
"""Budget of one element of an array."""

OPERATION_EFFORT = 3e-6
"""Budget of a send that is placed, a row of a program per column, or a variable of a model."""

TRIAL_EFFORT = 0.1
"""Budget of one of many trials, such as a neighborhood."""

QUICK_EFFORT = 0.7
"""Budget of a search that prints its result within seconds. Symmetric searches that succeed take
0.15."""

STEP_EFFORT = 2.0
"""Budget of one step of a longer search. Solves for one chunk count take 0.3 to 1.3."""

SWEEP_EFFORT = 12.0
"""Budget of one of many limits: about half a minute."""

LIMIT_EFFORT = 30.0
"""Budget of a single limit. The allgather on ``ndv2x2`` with S = 7 takes 1.9."""
