"""What it means that a registered record has no condition InService, in words.

The condition is written when the load balancer first says that it sends a member nothing
new. Without it the member is in service, or its driver lists no members, or nobody has
listed them yet: three things that an empty column does not tell apart.
"""

from datetime import datetime

from lbcf.core.lifecycle.in_service import GRACE, is_new
from lbcf.core.model import conditions
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancer
from lbcf.core.reasons import Reason
from lbcf.ctl.balancer_troubles import is_ill
from lbcf.ctl.reading import Reading
from lbcf.ctl.report import Line, Mark, human_duration


_OF_ITS_LIST = {conditions.REACHABLE, conditions.DRIFTED, conditions.RESTORED}
"""Conditions of a load balancer that say whether the list of its members can be believed."""


def unsaid_line(record: BackendRecord, reading: Reading, now: datetime) -> Line:
    """Return the line that a registered record has in the place of the condition."""
    why = _why_unknown(record, reading, now)
    if why:
        return Line(Mark.NONE, conditions.IN_SERVICE, f"not known: {why}")
    text = f"{record.spec.load_balancer} has said nothing else since it was registered"
    return Line(Mark.OK, conditions.IN_SERVICE, f"in service: {text}")


def _why_unknown(record: BackendRecord, reading: Reading, now: datetime) -> str:
    """Return why nobody knows whether a record is in service; empty: it is."""
    key, where = record.load_balancer_key, record.spec.load_balancer
    balancer = reading.view.load_balancers.get(key)
    if balancer is None:
        return f"LoadBalancer {key} could not be read"
    if _lists_none(balancer, reading):
        return (
            f"driver {balancer.driver_key} lists no members: its spec.webhooks has no "
            f"{Operation.LIST_BACKENDS}"
        )
    reachable = conditions.find(balancer.conditions, conditions.REACHABLE)
    if reachable is None:
        return f"nobody has listed the members of {where} yet"
    if reachable.status is None:
        return reachable.message
    for one in balancer.conditions:
        if one.type in _OF_ITS_LIST and is_ill(one):
            return f"{where} is {one.type} {one.status}"
    if is_new(record, now):
        most = human_duration(GRACE)
        return f"it is new, and may wait up to {most} for the first checks of {where}"
    return ""


def _lists_none(balancer: LoadBalancer, reading: Reading) -> bool:
    """Return whether the driver of a load balancer does not list its members."""
    reachable = conditions.find(balancer.conditions, conditions.REACHABLE)
    if reachable is not None:
        return reachable.status is None and reachable.reason == Reason.NOT_LISTED
    driver = reading.view.drivers.get(balancer.driver_key)
    return driver is not None and not driver.declares(Operation.LIST_BACKENDS)
