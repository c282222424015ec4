"""Troubles of a load balancer and its driver, as told to those that are registered there.

Their own answers, `why lb` and `why driver`, have more. Here is what must stand in the
answers about a group, a record, a pod or a Service: none of these is well where its load
balancer is not.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import own_name
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.reading import Reading
from lbcf.ctl.remedies import Trouble, remedied_line
from lbcf.ctl.report import Line, Section, first_wrong, is_wrong, object_ref


def balancer_subject(key: ObjectKey) -> str:
    """Return what a load balancer is called beside others of its group."""
    return f"lb/{own_name(key)}"


def balancer_troubles(
    reading: Reading, key: ObjectKey, now: datetime
) -> Iterator[Line]:
    """Return a line for each condition that speaks against a load balancer, or its driver."""
    balancer = reading.view.load_balancers.get(key)
    if balancer is None:
        return
    driver = reading.view.drivers.get(balancer.driver_key)
    for condition in filter(is_ill, balancer.conditions):
        line = remedied_line(Trouble(key, condition, driver), now)
        yield attrs.evolve(line, subject=balancer_subject(key))
    for condition in filter(is_wrong, () if driver is None else driver.conditions):
        line = remedied_line(Trouble(balancer.driver_key, condition, driver), now)
        subject = object_ref("driver", balancer.driver_key)
        yield attrs.evolve(line, subject=subject)


def is_ill(condition: Condition) -> bool:
    """Return whether a condition speaks against a load balancer.

    Members that are being put back are no failure, and no sign of health either.
    """
    is_restoring = condition.type == conditions.RESTORED and condition.status is False
    return is_wrong(condition) or is_restoring


def trouble_headline(troubles: Iterable[Line]) -> str:
    """Return the worst of such lines for a headline, which has no subject beside it."""
    first = first_wrong([Section("", tuple(troubles))])
    return "" if first is None else f"{first.subject}: {first.text}"
