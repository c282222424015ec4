"""Carries out what the core asks for, and nothing that it did not ask for.

    core.lifecycle: next_step -> step -> perform -> reply -> learn -> next_step -> ...

Every effect of a record's life passes through `Executor.perform`: reads and writes of
the record, calls of its driver, the lock on its address. A call to a driver is sent only
under a permission that covers all of it; one that had to queue for too long is renewed
first, and not made at all if the record has changed.
"""

from lbcf.executor.listings import Listing
from lbcf.executor.load_balancers import LoadBalancerCalls
from lbcf.executor.perform import Executor, Subject


__all__ = ["Executor", "Listing", "LoadBalancerCalls", "Subject"]
