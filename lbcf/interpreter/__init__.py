"""Carries out what the core asks for, and nothing that it did not ask for.

    core.registration, core.deregistration -> step -> perform -> reply -> learn -> ...

Every effect of a record's life passes through `Interpreter.perform`: reads and writes of
the record, calls of its driver, the lock on its address. A call to a driver is sent only
under a permission that covers all of it; one that had to queue for too long is renewed
first, and not made at all if the record has changed.
"""

from lbcf.interpreter.listings import Listing
from lbcf.interpreter.load_balancers import LoadBalancerCalls
from lbcf.interpreter.perform import Interpreter, Subject


__all__ = ["Interpreter", "Listing", "LoadBalancerCalls", "Subject"]
