"""`check`: whether an installation is whole, measured by the manifests of this version.

Kinds with all of their fields, processes that run and lead, the rights of their accounts,
policies with bindings, the webhook by a creation that is not stored, drivers by what the
controller wrote of them, and the tokens that they share. Who asks must be allowed to read all
that; what they may not is left open.
"""

import asyncio

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeVar

import attrs
import msgspec

from lbcf.core.model import conditions
from lbcf.core.model.resources import LoadBalancerDriver, Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.core.reasons import Reason
from lbcf.ctl.errors import missing_right
from lbcf.ctl.leaders import (
    Leader,
    expected_leases,
    leader_remedy,
    leaders_of,
    list_leases,
    missing_lease,
)
from lbcf.ctl.remedies import Trouble, remedied_line
from lbcf.ctl.report import Line, Mark, Section, WhyReport, object_ref
from lbcf.ctl.shipped import Json, documents
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Forbidden, KubeError, NotFound
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS, SECRETS, HasMeta, Resource
from lbcf.kube.leases import LEASES
from lbcf.kube.list_watch import Selection


T = TypeVar("T", bound=HasMeta)

OURS: Final = "app.kubernetes.io/part-of=lbcf"
"""The label of all that the manifests bring."""

_COMPONENT: Final = "app.kubernetes.io/component"
_MUST_RUN: Final = ("controller", "deregistrar")
_CERTIFICATE: Final = ("secrets", "validatingwebhookconfigurations")
"""What `lbcf admission` writes to keep a certificate of its own."""
_PROBE: Final = "check-of-the-installation"
"""The name of the load balancer that is created without being stored, and of its driver."""

_APPLY: Final = "apply the manifests of this version: docs/install.md#4-upgrading"
_SHOWN: Final = 4
_AT_ONCE: Final = 8
"""Questions about rights at a time."""


@attrs.frozen
class Anything:
    """An object of any kind, as it came."""

    meta: Meta
    content: Json


_BODY = msgspec.json.Decoder(dict[str, Any])


def _parse(body: bytes) -> Anything:
    content = _BODY.decode(body)
    told = content.get("metadata") or {}
    key = ObjectKey(told.get("namespace", ""), told.get("name", ""))
    meta = Meta(key, Uid(told.get("uid", "")), told.get("resourceVersion", ""))
    return Anything(attrs.evolve(meta, labels=told.get("labels") or {}), content)


def _admission(plural: str, kind: str) -> Resource[Anything]:
    group = "admissionregistration.k8s.io"
    return Resource(group, "v1", plural, kind, _parse, namespaced=False)


_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    _parse,
    namespaced=False,
)
_POLICY: Final = "ValidatingAdmissionPolicy"
_POLICIES: Final = _admission("validatingadmissionpolicies", _POLICY)
_BINDINGS: Final = _admission("validatingadmissionpolicybindings", f"{_POLICY}Binding")
_WEBHOOKS: Final = _admission(
    "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
_DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", _parse)
_REVIEWS: Final = Resource(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    _parse,
    namespaced=False,
)


async def check(client: KubeClient, namespace: str, now: datetime) -> WhyReport:
    """Look at all parts of an installation.

    Args:
        client: of the caller.
        namespace: where a load balancer is created that is not stored.
        now: the moment.

    Raises:
        CtlError: the manifests are missing.
        KubeError: the API server cannot be asked.
    """
    parts = (
        _part("kinds", _DEFINITIONS, _check_kinds(client)),
        _part("processes", _DEPLOYMENTS, _check_processes(client)),
        _part("leaders", LEASES, _check_leaders(client, now)),
        _part("rights", _REVIEWS, _check_rights(client), "create"),
        _part("policies", _POLICIES, _check_policies(client)),
        _part("webhook", LOAD_BALANCERS, _check_webhook(client, namespace), "create"),
        _part("drivers", DRIVERS, _check_drivers(client, now)),
    )
    sections = tuple(await asyncio.gather(*parts))
    lines = [line for section in sections for line in section.lines]
    return WhyReport(
        namespace="",
        subject="installation",
        headline=_headline([line.mark for line in lines]),
        sections=sections,
    )


def is_whole(report: WhyReport) -> bool:
    """Return whether nothing is missing, as far as it could be read."""
    lines = (line for section in report.sections for line in section.lines)
    return all(line.mark is not Mark.NO for line in lines)


def _headline(marks: list[Mark]) -> str:
    wrong, unknown = marks.count(Mark.NO), marks.count(Mark.UNKNOWN)
    text = f"{wrong} of {len(marks)} checks failed" if wrong else "it is whole"
    return f"{text}; {unknown} could not be made" if unknown else text


async def _part(
    title: str, kind: Resource[Any], lines: AsyncIterator[Line], verb: str = "list"
) -> Section:
    """Put the lines of a part together; what may not be read ends them."""
    found = []
    try:
        async for line in lines:
            found.append(line)  # noqa: PERF401 - those before a refusal are kept
    except Forbidden:
        right = missing_right(verb, kind, None)
        found.append(Line(Mark.UNKNOWN, title, f"we {right}", Reason.NOT_READ))
    return Section(title, tuple(found))


async def _all(client: KubeClient, kind: Resource[T]) -> tuple[T, ...]:
    page = await client.list(kind, Selection(labels=OURS))
    return page.objects


async def _check_kinds(client: KubeClient) -> AsyncIterator[Line]:
    """Return whether each kind is served, with all fields of this version."""
    for expected in documents("CustomResourceDefinition"):
        name = expected["metadata"]["name"]
        try:
            found = await client.get(_DEFINITIONS, ObjectKey("", name))
        except NotFound:
            yield Line(Mark.NO, name, "it is not installed", remedy=_APPLY)
            continue
        lost = tuple(_lost_fields(expected, found.content))
        if not _is_true(found.content, "Established"):
            yield Line(
                Mark.NO, name, "the API server does not serve it: kubectl describe crd"
            )
        elif lost:
            more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            text = f"it is of another version: no {', '.join(lost[:_SHOWN])}{more}"
            yield Line(Mark.NO, name, text, remedy=_APPLY)
        else:
            yield Line(Mark.OK, name, "served, with all fields of this version")


def _is_true(found: Json, kind: str) -> bool:
    told = found.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == (kind, "True") for one in told)


def _lost_fields(expected: Json, found: Json) -> Iterator[str]:
    """Return what a definition of ours has and the cluster's does not."""
    theirs = {one["name"]: one for one in found["spec"]["versions"] if one["served"]}
    for version in expected["spec"]["versions"]:
        name = version["name"]
        if name not in theirs:
            yield f"version {name}"
        else:
            schema = theirs[name]["schema"]["openAPIV3Schema"]
            yield from _lost(version["schema"]["openAPIV3Schema"], schema, ())


def _lost(own: Json, theirs: Json, path: tuple[str, ...]) -> Iterator[str]:
    own, theirs = own.get("items", own), theirs.get("items", theirs)
    known = theirs.get("properties", {})
    for name, field in own.get("properties", {}).items():
        if name in known:
            yield from _lost(field, known[name], (*path, name))
        else:
            yield ".".join((*path, name))


async def _check_processes(client: KubeClient) -> AsyncIterator[Line]:
    """Return whether each Deployment of ours has pods that are ready."""
    found = await _all(client, _DEPLOYMENTS)
    for one in found:
        spec, status = one.content["spec"], one.content.get("status", {})
        [container, *_] = spec["template"]["spec"]["containers"]
        ready, wanted = status.get("availableReplicas", 0), spec.get("replicas", 1)
        text = f"{ready} of {wanted} are available, of {container['image']}"
        name, where = one.meta.key.name, one.meta.key.namespace
        if ready:
            yield Line(Mark.OK if ready >= wanted else Mark.WAIT, name, text)
        else:
            look = f"kubectl -n {where} describe pods -l {_labels(spec)}"
            yield Line(Mark.NO, name, text, remedy=look)
    running = {one.meta.labels.get(_COMPONENT) for one in found}
    for component in (one for one in _MUST_RUN if one not in running):
        text = f"no Deployment with the label {OURS}: it runs elsewhere, or not at all"
        yield Line(Mark.NONE, f"lbcf-{component}", text)


def _labels(spec: Json) -> str:
    return ",".join(f"{k}={v}" for k, v in spec["selector"]["matchLabels"].items())


async def _check_leaders(client: KubeClient, now: datetime) -> AsyncIterator[Line]:
    """Return whether somebody leads, of each process that elects, and of its shards."""
    leaders = tuple(leaders_of(await list_leases(client.list), now))
    existing = {leader.name for leader in leaders}
    for name in expected_leases(existing):
        if name in existing:
            yield _leader_line(name, (one for one in leaders if one.name == name))
        else:
            text, remedy = missing_lease(name, existing), leader_remedy(name)
            yield Line(Mark.NO, name, text, Reason.NO_LEADER, remedy)


def _leader_line(name: str, leaders: Iterable[Leader]) -> Line:
    alive = next((one for one in leaders if one.is_alive), None)
    if alive is not None:
        return Line(Mark.OK, name, f"{alive.holder} leads, in {alive.namespace}")
    text = f"nobody leads: {name} does not run, or without --leader-elect"
    return Line(Mark.NO, name, text, Reason.NO_LEADER, leader_remedy(name))


async def _check_rights(client: KubeClient) -> AsyncIterator[Line]:
    """Return whether the processes' accounts may do what the roles of this version say."""
    turns = asyncio.Semaphore(_AT_ONCE)
    for one in await _all(client, _DEPLOYMENTS):
        component, key = one.meta.labels.get(_COMPONENT, ""), one.meta.key
        pod = one.content["spec"]["template"]["spec"]
        rights = _rights(component, key.namespace)
        spared = _CERTIFICATE if _has_certificate_files(pod) else ()
        asked = tuple(right for right in rights if right["resource"] not in spared)
        if not asked:
            continue
        account = pod.get("serviceAccountName", "")
        user = f"system:serviceaccount:{key.namespace}:{account}"
        asking = (_may(client, user, right, turns) for right in asked)
        answers = await asyncio.gather(*asking)
        refused = [right for right, may in zip(asked, answers, strict=True) if not may]
        name = f"{key.namespace}/{account}"
        if refused:
            shown = ", ".join(map(_worded, refused[:_SHOWN]))
            text = f"may not {shown}: {len(refused)} of {len(asked)} rights are missing"
            yield Line(Mark.NO, name, text, remedy=_APPLY)
        else:
            yield Line(Mark.OK, name, f"has all {len(asked)} rights")


def _has_certificate_files(pod: Json) -> bool:
    """Return whether somebody else makes the process's certificate."""
    args = pod["containers"][0].get("args", ())
    return any(arg.partition("=")[0] == "--tls-cert-file" for arg in args)


def _rights(component: str, namespace: str) -> Iterator[dict[str, str]]:
    """Return each right of a process, as a review asks for it."""
    for role in documents("ClusterRole", "Role"):
        if role["metadata"].get("labels", {}).get(_COMPONENT) != component:
            continue
        where = {"namespace": namespace} if role["kind"] == "Role" else {}
        for rule in role["rules"]:
            [group] = rule["apiGroups"]
            for resource in rule["resources"]:
                plural, _, part = resource.partition("/")
                for name in rule.get("resourceNames", [""]):
                    about = {"group": group, "resource": plural, "subresource": part}
                    for verb in rule["verbs"]:
                        yield {**where, **about, "name": name, "verb": verb}


def _worded(right: Json) -> str:
    part = f"/{right['subresource']}" if right["subresource"] else ""
    return f"{right['verb']} {right['resource']}{part}"


async def _may(
    client: KubeClient, user: str, right: Json, turns: asyncio.Semaphore
) -> bool:
    spec = {"user": user, "resourceAttributes": right}
    # One that waited for a hundred others would be out of time.
    async with turns:
        answer = await client.create(_REVIEWS, "", {"spec": spec})
    return bool(answer.content["status"]["allowed"])


async def _check_policies(client: KubeClient) -> AsyncIterator[Line]:
    """Return whether each policy is there, understood, and bound."""
    policies, bindings = await asyncio.gather(
        _all(client, _POLICIES), _all(client, _BINDINGS)
    )
    found = {one.meta.key.name: one.content for one in policies}
    bound = {one.content["spec"]["policyName"] for one in bindings}
    optional = await _installed_webhook(client) is None
    for expected in documents(_POLICY):
        name = expected["metadata"]["name"]
        component = expected["metadata"]["labels"].get(_COMPONENT)
        if name not in found and component == "admission" and optional:
            continue
        yield _policy_line(name, found.get(name), is_bound=name in bound)


def _policy_line(name: str, found: Json | None, *, is_bound: bool) -> Line:
    if found is None:
        return Line(Mark.NO, name, "it is not installed", remedy=_APPLY)
    if not is_bound:
        return Line(Mark.NO, name, "nothing binds it: it has no effect", remedy=_APPLY)
    checked = found.get("status", {}).get("typeChecking", {})
    if warnings := checked.get("expressionWarnings"):
        return Line(Mark.NO, name, f"the API server warns: {warnings[0]['warning']}")
    return Line(Mark.OK, name, "bound")


async def _installed_webhook(client: KubeClient) -> Anything | None:
    return next(iter(await _all(client, _WEBHOOKS)), None)


async def _check_webhook(client: KubeClient, namespace: str) -> AsyncIterator[Line]:
    """Return whether the API server reaches it: by a creation that is not stored."""
    found = await _installed_webhook(client)
    if found is None:
        text = "not installed: drivers see objects once they are stored"
        yield Line(Mark.NONE, "lbcf admission", text)
        return
    name = found.meta.key.name
    # Somebody may have emptied it in an emergency; the API allows that.
    hook = next(iter(found.content.get("webhooks") or ()), None)
    if hook is None:
        text = "it has no webhooks: it has no effect, drivers see objects once stored"
        yield Line(Mark.NO, name, text, remedy=_APPLY)
        return
    if not hook["clientConfig"].get("caBundle"):
        text = "no caBundle is written: lbcf admission has never run"
        yield Line(Mark.NO, name, text)
        return
    body = {"metadata": {"name": _PROBE}, "spec": {"lbDriver": _PROBE, "lbSpec": {}}}
    try:
        await client.create(LOAD_BALANCERS, namespace, body, dry_run=True)
    except Forbidden as error:
        if "cannot create" in str(error):
            raise
    except KubeError as error:
        if hook["name"] in str(error) or "failed calling webhook" in str(error):
            yield Line(Mark.NO, name, f"the API server cannot reach it: {error}")
            return
    yield Line(Mark.OK, name, f"it answers; failurePolicy {hook['failurePolicy']}")


async def _check_drivers(client: KubeClient, now: datetime) -> AsyncIterator[Line]:
    """Return what the controller wrote of each driver, and whether its token is there."""
    page = await client.list(DRIVERS, Selection())
    if not page.objects:
        yield Line(Mark.NONE, "none", "no LoadBalancerDriver is there yet")
    for driver in sorted(page.objects, key=lambda one: one.meta.key):
        for line in _driver_lines(driver, now):
            yield line
        async for line in _token_lines(client, driver):
            yield line


def _driver_lines(driver: LoadBalancerDriver, now: datetime) -> Iterator[Line]:
    key = driver.meta.key
    name = f"{object_ref('driver', key)} -n {key.namespace}"
    known = [
        found
        for kind in (conditions.ACCEPTED, conditions.HEALTHY)
        if (found := conditions.find(driver.conditions, kind)) is not None
    ]
    if not known:
        yield Line(Mark.WAIT, name, "no controller has looked at it yet")
    for found in known:
        line = remedied_line(Trouble(key, found, driver), now)
        yield attrs.evolve(line, subject=f"{name}: {line.subject}")


async def _token_lines(
    client: KubeClient, driver: LoadBalancerDriver
) -> AsyncIterator[Line]:
    token = driver.security.token
    if token is None:
        return
    key = ObjectKey(driver.meta.key.namespace, token.name)
    name = f"secret/{key.name} -n {key.namespace}"
    make = "docs/install.md#2-manifests says how the token is made"
    try:
        found = await client.get(SECRETS, key)
    except NotFound:
        yield Line(Mark.NO, name, "it does not exist", remedy=make)
    except Forbidden:
        yield Line(Mark.UNKNOWN, name, "we may not read it", Reason.NOT_READ)
    else:
        if found.values.get(token.key, b"").strip():
            yield Line(Mark.OK, name, f"has a {token.key}")
        else:
            yield Line(Mark.NO, name, f"its {token.key} is empty", remedy=make)
