"""The invariants that a simulation holds the crawler to, each a function with a name and a number.

Numbers 1 to 12 are those of seed 000, chapter 16 (`docs/invariants.md`); 0 is ours. A function looks at one thing that just
happened beside the model as it stood before (`ledger.py`) and says what is wrong with it, or nothing:

    EVENTS     one input, decision or output of a commit        `deciding.py`, `obeying.py`
    BATCHES    one commit as a whole                            `deciding.py`
    REQUESTS   one connection that a server saw                 `asking.py`
    ENDS       the whole, when all is quiet                     `ending.py`
    GUARDS     what the simulation itself watches               `simulation.py`

Number 8 (a Bloom filter's "maybe") has nothing to hold: there is no filter yet, every link is looked up in the table.
Not checked: that a policy version is the newest; what a human would call a good order of URLs.
"""

from simulation import asking, deciding, ending, obeying

EVENTS = (*deciding.EVENTS, *obeying.EVENTS)
BATCHES = (("each_input_once_in_order", 0, deciding.whole_batch),)
REQUESTS = asking.REQUESTS
ENDS = ending.ENDS
GUARDS = (
    ("stale_owner_writes_nothing", 10),
    ("nothing_unexpected_is_raised", 0),
    ("it_ends", 0),
)  # fmt: skip
NUMBERS = {name: number for name, number, *_ in (*EVENTS, *BATCHES, *REQUESTS, *ENDS, *GUARDS)}
"""Name → number of every invariant."""
