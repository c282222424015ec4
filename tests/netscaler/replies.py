"""What an appliance tells of its things, field by field and type by type.

Rows of members are as in a public recording of a real appliance of 2023: the port is a
number and nearly all other numbers are texts. Statistics are as in recordings of 2013
to 2022: counters are texts, ports and rates are numbers, a unit's own are an object.
"""

import ipaddress

from collections.abc import Callable
from types import MappingProxyType

from tests.netscaler.configuration import Member, Server
from tests.netscaler.unit import Unit


Row = dict[str, object]

_CHANGED_AT = "Sat Nov 21 05:00:00 2026"
_RATES = MappingProxyType(
    {
        "requestsrate": 0,
        "responsesrate": 0,
        "requestbytesrate": 0,
        "responsebytesrate": 0,
    }
)
_COUNTERS = (
    "totalrequests", "totalresponses", "totalrequestbytes", "totalresponsebytes",
    "surgecount", "avgsvrttfb",
)  # fmt: skip


def member_row(unit: Unit, member: Member) -> Row:
    """Return a row of servicegroup_servicegroupmember_binding."""
    return {
        "servicegroupname": member.group,
        "ip": member.ip,
        "port": member.port,
        "svrstate": unit.svrstate(member),
        "statechangetimesec": _CHANGED_AT,
        "tickssincelaststatechange": "1874404",
        "weight": str(member.weight),
        "servername": member.server,
        "customserverid": member.customserverid,
        "serverid": "0",
        "state": member.state,
        "hashid": "0",
        "graceful": member.graceful,
        "delay": str(member.delay),
        "delay1": "0",
        "nameserver": "0.0.0.0",  # noqa: S104  (what appliances say for none)
        "dbsttl": "0",
        "orderstr": "Default",
        "trofsdelay": "0",
    }


def server_row(server: Server) -> Row:
    """Return a row of server; without a comment there is no such field."""
    is_v6 = ipaddress.ip_address(server.ipaddress).version == 6
    row: Row = {
        "name": server.name,
        "ipaddress": server.ipaddress,
        "state": server.state,
        "domainresolveretry": 5,
        "statechangetimesec": _CHANGED_AT,
        "tickssincelaststatechange": "1874404",
        "ipv6address": "YES" if is_v6 else "NO",
        "td": "0",
        "autoscale": "DISABLED",
        "usip": "NO",
        "cka": "NO",
        "tcpb": "NO",
        "cmp": "NO",
        "cacheable": "NO",
        "sc": "OFF",
        "sp": "OFF",
    }
    return row | ({"comment": server.comment} if server.comment else {})


def group_row(unit: Unit, name: str) -> Row:
    """Return a row of servicegroup."""
    return {
        "servicegroupname": name,
        "servicetype": "HTTP",
        "td": "0",
        "maxclient": "0",
        "maxreq": "0",
        "cacheable": "NO",
        "cip": "DISABLED",
        "usip": "NO",
        "healthmonitor": "YES",
        "sc": "OFF",
        "sp": "OFF",
        "clttimeout": 180,
        "svrtimeout": 360,
        "cka": "NO",
        "tcpb": "NO",
        "cmp": "NO",
        "maxbandwidth": "0",
        "state": "ENABLED",
        "downstateflush": "ENABLED",
        "appflowlog": "ENABLED",
        "autoscale": "DISABLED",
        "numofconnections": 0,
        "groupcount": str(len(unit.running.of_group(name))),
        "monstate": "ENABLED",
        "servicegroupeffectivestate": _effective_state(unit, name),
    }


def _effective_state(unit: Unit, name: str) -> str:
    """Return a group's state as the reference derives it from its members' states."""
    found = {unit.svrstate(member) for member in unit.running.of_group(name)}
    if "UP" in found:
        return "UP" if found == {"UP"} else "PARTIAL-UP"
    if "DOWN" in found:
        return "DOWN" if found == {"DOWN"} else "PARTIAL-DOWN"
    return "OUT OF SERVICE" if found else "DOWN"


def member_stat(unit: Unit, member: Member) -> Row:
    """Return a row of the statistics of members."""
    unit.tick()
    count = str(unit.traffic.count(member.key))
    pooled = unit.traffic.pooled.get(member.key, 0)
    return {
        # As appliances have it: group, server and port in one.
        "servicegroupname": f"{member.group}?{member.server}?{member.port}",
        "primaryipaddress": member.ip,
        "primaryport": member.port,
        "servicetype": "HTTP",
        "state": _STATES.get(unit.svrstate(member), unit.svrstate(member)),
        **dict.fromkeys(_COUNTERS, "0"),
        **_RATES,
        "curclntconnections": count,
        "cursrvrconnections": str(int(count) + pooled),
        "svrestablishedconn": count,
        "curreusepool": str(pooled),
        "maxclients": "0",
    }


_STATES = {
    "OUT OF SERVICE": "OUT OF SERVICE",
    "GOING OUT OF SERVICE": "TROFS",
    "DOWN WHEN GOING OUT OF SERVICE": "TROFS_DOWN",
}


def group_stat(unit: Unit, name: str, *, members: bool) -> Row:
    """Return the statistics of a group; without members there is no such field."""
    unit.running.check_group(name)
    row: Row = {"servicegroupname": name, "state": "ENABLED", "servicetype": "HTTP"}
    found = [member_stat(unit, one) for one in unit.running.of_group(name)]
    return row | ({"servicegroupmember": found} if members and found else {})


def ns_stat(unit: Unit) -> Row:
    """Return a unit's own statistics, cut to what matters here and some around it."""
    return {
        "numcpus": "2",
        "cpuusagepcnt": 1.2,
        "memusagepcnt": 21.4,
        "mgmtcpuusagepcnt": 3.1,
        "starttime": unit.started,
        "starttimelocal": unit.started,
        "transtime": _CHANGED_AT,
        "hacurstate": "UP",
        "hacurmasterstate": unit.role,
        "tcpcurclientconn": "0",
    }


def hanode_stat(unit: Unit) -> Row:
    """Return what a unit tells of its pair, as recorded in 2022."""
    return {
        "hacurstatus": "YES" if unit.in_pair else "NO",
        "hacurstate": "UP",
        "hacurmasterstate": unit.role,
        "transtime": _CHANGED_AT,
        "hatotpktrx": "49020739",
        "hapktrxrate": 5,
        "hatotpkttx": "98040405",
        "hapkttxrate": 10,
        "haerrproptimeout": "0",
        "haerrsyncfailure": "0",
    }


def nsconfig_row(unit: Unit) -> Row:
    """Return the state of a unit's configuration."""
    return {
        "ipaddress": "192.0.2.10",
        "netmask": "255.255.255.0",
        "systemtype": "HA" if unit.in_pair else "Stand-alone",
        "lastconfigchangedtime": _CHANGED_AT,
        "lastconfigsavetime": _CHANGED_AT,
        "currentsytemtime": _CHANGED_AT,
        "configchanged": unit.changed,
    }


def server_bindings(unit: Unit, name: str) -> Row:
    """Return what a server is bound to; nothing but its name where it is unused."""
    unit.running.find_server(name)
    found = [one for one in unit.running.members.values() if one.server == name]
    bound = [
        {
            "name": name,
            "servicegroupname": one.group,
            "svctype": "HTTP",
            "serviceipaddress": one.ip,
            "port": one.port,
            "svrstate": unit.svrstate(one),
            "customserverid": one.customserverid,
            "monthreshold": "0",
        }
        for one in found
    ]
    return {"name": name} | ({"server_servicegroup_binding": bound} if bound else {})


def filtered(
    rows: list[Row], text: str, render: Callable[[object], str] = str
) -> list[Row]:
    """Return the rows that have all of `name:value,name:value`."""
    wanted = [part.partition(":")[::2] for part in text.split(",") if part]
    return [
        row
        for row in rows
        if all(render(row.get(name, "")) == value for name, value in wanted)
    ]
