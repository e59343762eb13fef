"""One rank of a job: sums vectors with all others. Rank 0 prints what came out."""

import os
from array import array

from syncline.runtime import Communicator, Security

# A testbed's network is its own: nobody else can join, so no key is needed.
with Communicator.join(security=Security(insecure=True)) as ranks:
    vector = array("f", [ranks.rank + 1.0] * 100_000)
    ranks.all_reduce(vector).wait()
    if ranks.rank == 0:
        print(f"{ranks.world} ranks in racks {os.environ['SYNCLINE_RACKS']}: every sum is {set(vector)}")
