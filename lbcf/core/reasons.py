"""The reasons that people meet: in conditions, Events, logs and the answers of `lbcf`.

Each is a CamelCase word that does not change, since alerts look for it, and knows what it
means and what to do: the tables of docs/troubleshoot.md are made of it.
"""

from enum import StrEnum, unique
from sys import intern
from typing import NamedTuple, NewType, Self

import attrs


class Where(NamedTuple):
    """Where a reason is seen.

    Attributes:
        section: of docs/troubleshoot.md.
        on: which condition, or Event, of which object.
    """

    section: str
    on: str


_CALL = Where("Drivers", "records, load balancers")
_ANY_CALL = Where("Drivers", "all")
_NO_CALL = Where("Drivers", "records, groups, load balancers")
_REGISTERED = Where("Records", "Registered")
_GATE = Where("Pods", "`lbcf.tkestack.io/registered`")
_IN_SERVICE = Where("Records", "InService")
_READY = Where("Groups", "Ready")
_HELD = Where("Groups", "RemovalsHeld")
_GATED = Where("Groups", "DrainGated")
_SERVING = Where("Groups", "Serving")
_CUT = Where("Groups", "DrainsCut")
_CREATED = Where("Load balancers", "Created")
_DRIFTED = Where("Load balancers", "Drifted, and an Event")
_REACHABLE = Where("Load balancers", "Reachable")
_ORPHANED = Where("Load balancers", "Orphaned, and an Event")
_RESTORED = Where("Load balancers", "Restored, and an Event")
_ACCEPTED = Where("Drivers' own conditions", "Accepted")
_HEALTHY = Where("Drivers' own conditions", "Healthy")
_BIND_CREATED = Where("Binds", "Created")
_BIND_READY = Where("Binds", "Ready")
_BIND = Where("Binds", "Created, Ready")
_SERVICE = Where("Services of type LoadBalancer", "LoadBalancerReady, and an Event")
_SERVICE_EVENT = Where("Events", "Service of type LoadBalancer")
_DELETED = Where(
    "Why a record was deleted, or is not made", "log, `status.departed` of groups"
)
_GROUP_EVENT = Where("Events", "group")
_LOAD_BALANCER_EVENT = Where("Events", "load balancer")
_LBCF = Where("What `kubectl lbcf` alone says", "`status` and `why` of `kubectl lbcf`")


class Explained(StrEnum):
    """A reason with what people need to know of it, in Markdown.

    Attributes:
        where: it is seen.
        means: what it says.
        do: what to do about it.
    """

    where: Where
    means: str
    do: str

    def __new__(cls, value: str, where: Where, means: str, do: str = "nothing") -> Self:
        """Make a member."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.where, member.means, member.do = where, means, do
        return member


@unique
class Reason(Explained):
    """Why a condition is as it is, a removal is made or held, or nothing is decided."""

    DRIVER_RUNNING = (
        "DriverRunning",
        _CALL,
        "it has begun and is asked again",
        "wait; for ever the same: look at the driver's log",
    )
    DRIVER_REFUSED = (
        "DriverRefused",
        _CALL,
        "it answered Fail",
        "read its words in the message",
    )
    DRIVER_UNREACHABLE = (
        "DriverUnreachable",
        _ANY_CALL,
        "no connection came about; nothing was sent",
        "is it running? does its URL lead there? do network policies let us?",
    )
    DRIVER_TIMED_OUT = (
        "DriverTimedOut",
        _ANY_CALL,
        "no whole answer in time; the call may have had its effect",
        "the driver's log; `webhooks[].timeout` of the driver, if its load balancer is that slow",
    )
    DRIVER_CONNECTION_LOST = (
        "DriverConnectionLost",
        _ANY_CALL,
        "the connection ended before the answer; the call may have had its effect",
        "does the driver crash? does it want a client certificate?",
    )
    DRIVER_BAD_STATUS = (
        "DriverBadStatus",
        _ANY_CALL,
        "an HTTP status other than 200",
        "the driver's log; is its URL right, with its path?",
    )
    DRIVER_REDIRECTED = (
        "DriverRedirected",
        _ANY_CALL,
        "it answered with a redirect, which is never followed",
        "give the URL that it redirects to",
    )
    DRIVER_ANSWER_TOO_LARGE = (
        "DriverAnswerTooLarge",
        _ANY_CALL,
        "the answer is over 1 MiB, of listBackends over 8 MiB",
        "something else may listen at its URL; a load balancer with more than some 70,000 members has to be parted",
    )
    DRIVER_BAD_ANSWER = (
        "DriverBadAnswer",
        _ANY_CALL,
        "the answer is not what the protocol says, or lacks what it needs",
        "the message says where; try the driver with `lbcf conformance`",
    )
    DRIVER_CALL_CUT = (
        "DriverCallCut",
        _CALL,
        "the call was cut off in our process",
        "wait; the call is made again",
    )
    DRIVER_CALL_TOO_LATE = (
        "DriverCallTooLate",
        Where("Drivers", "`outcome` of `lbcf_driver_calls_total`"),
        "our process stood still until what permitted the call had run out; nothing was sent",
        "nothing: it is decided anew; often: [LbcfEventLoopSlow](runbooks.md#lbcfeventloopslow)",
    )
    DRIVER_CALL_BROKE = (
        "DriverCallBroke",
        _CALL,
        "the call broke in our own process: a defect of ours",
        "report it, with `driver.call_broke` of the log",
    )
    DRIVER_NOT_TRUSTED = (
        "DriverNotTrusted",
        _ANY_CALL,
        "its certificate has expired, is for another name, or signed by nobody trusted; nothing was sent",
        "its certificate; `spec.tls.caBundle` and `serverName`",
    )
    DRIVER_REFUSES_CERTIFICATE = (
        "DriverRefusesCertificate",
        _ANY_CALL,
        "it wants a client certificate, or another one",
        "`spec.tls.clientCertificateSecretRef`",
    )
    DRIVER_UNAUTHORIZED = (
        "DriverUnauthorized",
        _ANY_CALL,
        "it answered HTTP 401 or 403",
        "the token in `spec.auth`, the certificate in `spec.tls`",
    )
    DRIVER_SECRET_NOT_FOUND = (
        "DriverSecretNotFound",
        _ANY_CALL,
        "a Secret that it names is not there; nothing was sent",
        "create it in the driver's namespace",
    )
    DRIVER_SECRET_UNREAD = (
        "DriverSecretUnread",
        _ANY_CALL,
        "a Secret that it names cannot be read; nothing was sent",
        "bind the role `lbcf-driver-secrets` in the driver's namespace: [security.md](security.md#our-processes)",
    )
    DRIVER_SECRET_UNUSABLE = (
        "DriverSecretUnusable",
        _ANY_CALL,
        "a Secret does not hold what it should, or has the wrong type; nothing was sent",
        "the message says what is wrong",
    )
    DRIVER_CA_BUNDLE_UNUSABLE = (
        "DriverCaBundleUnusable",
        _ANY_CALL,
        "`spec.tls.caBundle` is no PEM certificate",
        "mend it",
    )
    DRIVER_URL_NOT_ALLOWED = (
        "DriverUrlNotAllowed",
        _ANY_CALL,
        "`--driver-url-allow` or `--driver-namespaces` does not let drivers be there, or a token would go out unencrypted; nothing was sent",
        "another URL, https, or ask the operator",
    )
    DRIVER_NOT_CALLED = ("DriverNotCalled", _ANY_CALL, "a dry run: nobody was asked")
    DRIVER_NOT_FOUND = (
        "DriverNotFound",
        _NO_CALL,
        "there is no such driver",
        "create it, or abandon what waits: [operate.md](operate.md#abandon-a-record)",
    )
    DRIVER_UNREADABLE = (
        "DriverUnreadable",
        _NO_CALL,
        "the driver's object cannot be understood",
        "mend it; the message names the field",
    )
    REGISTERED = ("Registered", _REGISTERED, "the driver said so, for this generation")
    ADDRESS_IN_USE = (
        "AddressInUse",
        _REGISTERED,
        "another record, named in the message if it is of the same namespace, has the address at this load balancer",
        "wait for its end; if both live, two groups mean the same backend: take one out",
    )
    ADDRESS_NOT_FREE_YET = (
        "AddressNotFreeYet",
        _REGISTERED,
        "the record that had the address is gone, and calls for its end may still arrive: the message says until when at the latest",
        "wait: milliseconds where its deregistrar says that all were answered, else at most Δ ([lifecycle.md](lifecycle.md))",
    )
    STATUS_REFUSED = (
        "StatusRefused",
        Where(
            "Records",
            "Registered, Deregistered; an Event on a group, Bind, load balancer or driver",
        ),
        "the API server does not take what is to be written into the object's status: the message says what. Whether a record's backend is registered is as the condition's status says. Of the others the old status stays; the new one is tried again after pauses of up to 2 minutes, and when the spec changes, and no driver is called meanwhile about a load balancer whose answer could not be written",
        "are the kinds in the cluster (`manifests/crds`) of the same version as the controller? does an admission rule refuse it? report it otherwise",
    )
    ADDRESS_UNKNOWN = (
        "AddressUnknown",
        _REGISTERED,
        "the backend's own address cannot be read",
        "wait; is the pod, or node, gone?",
    )
    LOAD_BALANCER_RESET = (
        "LoadBalancerReset",
        Where("Records", "Registered; Restored of a load balancer, and an Event"),
        "the load balancer has lost its members; they are being put back",
        "does it restart often? its members are put back by themselves: [LbcfLoadBalancerReset](runbooks.md#lbcfloadbalancerreset)",
    )
    IN_SERVICE = (
        "InService",
        _IN_SERVICE,
        "the load balancer sends it new traffic again",
    )
    MEMBER_DOWN = (
        "MemberDown",
        _IN_SERVICE,
        "it is registered, and the load balancer sends it nothing new: its own word is in the message",
        "does the pod answer the load balancer's health checks? [LbcfMembersDown](runbooks.md#lbcfmembersdown)",
    )
    DRAINING = (
        "Draining",
        Where("Records", "Drained"),
        "nothing new comes; what runs may end until `status.drain.deadline`",
        "wait",
    )
    WAITING_TO_CONFIRM = (
        "WaitingToConfirm",
        Where("Records", "Deregistered"),
        "it is out, and is taken out once more when no earlier registration can arrive any more",
        "wait: seconds, at most Δ ([lifecycle.md](lifecycle.md))",
    )
    ALL_REGISTERED = (
        "AllRegistered",
        _GATE,
        "the pod is registered at every load balancer that its readiness gate waits for",
    )
    NO_GROUP_SELECTS = (
        "NoGroupSelects",
        _GATE,
        "no BackendGroup and no Bind means the pod, so that its readiness gate waits for nobody",
        "nothing, if none is to; else compare labels: `kubectl lbcf why pod/NAME`",
    )
    NOTHING_REQUIRED = (
        "NothingRequired",
        _GATE,
        "all that the pod's groups want is `gate: Optional`, or leaves: its readiness gate waits for nobody",
    )
    GATE_TIMED_OUT = (
        "GateTimedOut",
        _GATE,
        "the pod was not registered everywhere within `gateTimeoutSeconds`; its readiness gate was opened all the same, so that the rollout goes on",
        "the message names whom it waited for: [LbcfGateTimedOut](runbooks.md#lbcfgatetimedout)",
    )
    AWAITING_REGISTRATION = (
        "AwaitingRegistration",
        _GATE,
        "the pod's readiness gate waits for a registration",
        "wait; `kubectl lbcf why pod/NAME` names whom it waits for",
    )
    RECONCILED = (
        "Reconciled",
        _READY,
        "what should be there is written down",
        "nothing; of a single backend its record tells",
    )
    LOAD_BALANCER_NOT_FOUND = (
        "LoadBalancerNotFound",
        _READY,
        "the group names a load balancer that does not exist",
        "create it, or take it out of the spec",
    )
    LOAD_BALANCER_UNREADABLE = (
        "LoadBalancerUnreadable",
        Where("Groups", "Ready; Registered of a record"),
        "its object cannot be understood",
        "mend it; the message names the field",
    )
    LOAD_BALANCER_NOT_CREATED = (
        "LoadBalancerNotCreated",
        _READY,
        "its driver has not created it yet",
        "its condition `Created`",
    )
    LOAD_BALANCER_DELETING = (
        "LoadBalancerDeleting",
        Where("Groups", "Ready; Registered of a record"),
        "of a group: it is being deleted, the group's records leave it, nothing new comes; of a record: it is being deleted, is gone, or was made anew, and the record is not registered there",
        "take it out of the group's spec, or make it again: until then the record waits",
    )
    LOAD_BALANCER_OUT_OF_SCOPE = (
        "LoadBalancerOutOfScope",
        _READY,
        "its `scope` leaves this namespace out; what was registered there is drained and deregistered",
        "ask its owner",
    )
    PARAMETERS_BEING_VALIDATED = (
        "ParametersBeingValidated",
        _READY,
        "the driver is being asked whether it takes `parameters`; what it has not agreed to is not written",
        "wait; a refusal has a reason of [drivers](#drivers), with its words",
    )
    AWAITING_DEPARTURES = (
        "AwaitingDepartures",
        _READY,
        "`protection.order` is `DeregisterFirst`: new backends wait for as many that leave the same load balancer",
        "wait; for long: what keeps the records that are being deleted, `kubectl lbcf drains`",
    )
    RECORD_QUOTA_EXCEEDED = (
        "RecordQuotaExceeded",
        _READY,
        "the namespace has as many records as `--max-records-per-namespace` allows: what is registered stays, what is new waits",
        "delete groups that nobody needs; else the operator raises the flag, and the controller's memory with it",
    )
    GROUP_DELETING = (
        "GroupDeleting",
        _READY,
        "the group is being deleted: its records leave, nothing new comes",
        "nothing; where it does not end once they are gone: whose finalizer holds it?",
    )
    GROUP_UNREADABLE = (
        "GroupUnreadable",
        _READY,
        "the group itself cannot be understood",
        "mend it; the message names the field",
    )
    POD_UNREADABLE = (
        "PodUnreadable",
        _READY,
        "a pod of the namespace cannot be understood",
        "look at the pod that the message names",
    )
    RECORD_UNREADABLE = (
        "RecordUnreadable",
        Where(
            "Groups",
            "Ready; Created of a load balancer that is being deleted, Ready in a Bind (Created where it never was)",
        ),
        "a record cannot be understood, and may be one of these",
        "look at the record that the message names",
    )
    SERVICE_NOT_FOUND = (
        "ServiceNotFound",
        _READY,
        "there is no such Service: its records leave, 30 s after it was first missed",
        "create it, or mend the group",
    )
    SERVICE_DELETING = (
        "ServiceDeleting",
        _READY,
        "the Service is being deleted: its records leave",
        "nothing, if that was meant",
    )
    NODE_PORT_MISSING = (
        "NodePortMissing",
        _READY,
        "the Service has no such port, or no node port for it: its records leave",
        "give it type NodePort, or name a port that it has",
    )
    SERVICE_UNREADABLE = (
        "ServiceUnreadable",
        _READY,
        "the Service cannot be understood",
        "mend it; the message names the field",
    )
    ENDPOINTS_UNREADABLE = (
        "EndpointsUnreadable",
        _READY,
        "an EndpointSlice of the namespace cannot be understood",
        "who writes the one that the message names?",
    )
    ENDPOINTS_UNREAD = (
        "EndpointsUnread",
        _READY,
        "the EndpointSlices have not been read yet",
        "wait; for ever: may the controller list them?",
    )
    NODE_UNREADABLE = (
        "NodeUnreadable",
        _READY,
        "a node cannot be understood; it stays in, or out, as it is",
        "look at the node that the message names",
    )
    NODE_HAS_NO_ADDRESS = (
        "NodeHasNoAddress",
        _READY,
        "a node has no address of the type and family that the group asks for",
        "`addressType`, `ipFamily` of the group; the cloud's node controller",
    )
    DRAINED_BY_HAND = (
        "DrainedByHand",
        Where("Groups", "DrainedByHand; log"),
        "somebody put the annotation `lbcf.tkestack.io/drain` on the group, or on pods or nodes of it: they are drained and stay out; the message says why",
        "nothing, as long as they are to stay out; then take it off: [drain-by-hand.md](drain-by-hand.md)",
    )
    NOT_DRAINED = (
        "NotDrained",
        Where("Groups", "DrainedByHand"),
        "nothing is kept out by hand any more",
    )
    GATED = ("Gated", _GATED, "pods that ask for it get SIGTERM when they are drained")
    NOT_GATED = ("NotGated", _GATED, "no pod of the group asks for it any more")
    GRACE_TOO_SHORT = (
        "GraceTooShort",
        _GATED,
        "pods wait for less than their drain may take: what still runs by then is cut",
        "`terminationGracePeriodSeconds` of the pods above the drain's timeout and what the app needs ([gates.md](gates.md))",
    )
    OWN_PRE_STOP = (
        "OwnPreStop",
        _GATED,
        "containers have a preStop hook of their own, and get SIGTERM when that has ended",
        "take it out, or let it call the waiter ([gates.md](gates.md))",
    )
    PRE_STOP_TOO_SHORT = (
        "PreStopTooShort",
        _GATED,
        "pods sleep for less before SIGTERM than it may take to replace a deregistrar that is gone: requests may fail then",
        "a preStop hook that sleeps for longer, or the drain gate ([gates.md](gates.md))",
    )
    CUT_AT_DEADLINE = (
        "CutAtDeadline",
        _CUT,
        "drains of the departures that the group remembers came to their deadline: what was open was cut",
        "as for [LbcfDrainsCutOff](runbooks.md#lbcfdrainscutoff), if clients minded",
    )
    DRAINED_IN_TIME = (
        "DrainedInTime",
        _CUT,
        "none of the departures that the group remembers was cut any more",
    )
    SERVING = ("Serving", _SERVING, "members of the group are sent new traffic")
    NOTHING_SELECTED = (
        "NothingSelected",
        _SERVING,
        "the group selects no pod or node that is there to stay: nothing is registered",
        "compare the group's selector with the labels of the pods or nodes (`kubectl lbcf why pod/NAME`); nothing, where it is scaled to zero",
    )
    ALL_MEMBERS_DOWN = (
        "AllMembersDown",
        _SERVING,
        "the load balancers send nothing new to any registered member of the group",
        "the words of the load balancer are in InService of the records; look at the pods, then at the load balancer's health check",
    )
    NOT_HELD = ("NotHeld", _HELD, "no guard holds anything")
    TOO_MANY_UNREADY = (
        "TooManyUnready",
        _HELD,
        "more of the group is unready than `protection.maxUnreadyPercent`: removals for unreadiness wait",
        "look at the pods, and at their nodes; [override](operate.md#override-a-guard)",
    )
    AWAITING_REPLACEMENT = (
        "AwaitingReplacement",
        _HELD,
        "pods that are ready are not registered yet: pods that are being deleted and still serve stay until then, or until just before they are killed",
        "wait; for long: why are the new ones not registered, `kubectl lbcf why pod/NAME`; [override](operate.md#override-a-guard)",
    )
    KEPT_BY_DRIVER = (
        "KeptByDriver",
        _HELD,
        "the driver of `deregisterWebhook` says that unready pods stay",
        "ask that driver's owner",
    )
    BEING_JUDGED = ("BeingJudged", _HELD, "it is being asked", "wait")
    NOT_JUDGED = (
        "NotJudged",
        _HELD,
        "it gave no valid answer, and `failurePolicy` keeps them",
        "mend it: [drivers](#drivers)",
    )
    LAST_SERVING_NODE = (
        "LastServingNode",
        _HELD,
        "no other node has ready endpoints yet, so this one stays although it should leave",
        "start pods elsewhere; it ends by itself when its own are gone",
    )
    CREATED = ("Created", _CREATED, "the driver created it, or found it")
    ATTRIBUTES_SYNCED = (
        "AttributesSynced",
        Where("Load balancers", "AttributesSynced"),
        "the driver has these attributes",
    )
    DRIVER_DRAINING = (
        "DriverDraining",
        _CREATED,
        "its driver is being taken out of service and takes nothing new",
        "another driver",
    )
    DRIVER_OUT_OF_SCOPE = (
        "DriverOutOfScope",
        Where(
            "Load balancers", "Created, AttributesSynced, Ready in a Bind, of a group"
        ),
        "the shared driver does not serve load balancers of this namespace; what was registered there is drained and deregistered",
        "whoever operates the driver adds the namespace to `spec.scope` of the LoadBalancerDriver, or makes a LoadBalancer in kube-system that has it in scope",
    )
    IN_USE = (
        "InUse",
        Where(
            "Load balancers",
            "Created of a load balancer, Ready in a Bind, Accepted of a driver",
        ),
        "it is being deleted, and something needs it",
        "the message says what: end that first; it goes by itself then",
    )
    CREATION_UNCLEAR = (
        "CreationUnclear",
        Where("Load balancers", "Created of a load balancer, Ready in a Bind"),
        "it is being deleted, and a createLoadBalancer without an answer may still take effect: deleteLoadBalancer comes after that",
        "wait, at most Δ ([lifecycle.md](lifecycle.md))",
    )
    MEMBERS_MISSING = (
        "MembersMissing",
        _DRIFTED,
        "members that are registered are not there, twice in a row, and it was not reset",
        "who took them out? [LbcfMembersMissing](runbooks.md#lbcfmembersmissing)",
    )
    IN_STEP = ("InStep", _DRIFTED, "they are there again")
    MEMBERS_ORPHANED = (
        "MembersOrphaned",
        _ORPHANED,
        "its driver lists members that it registered for records that do not exist, twice in a row; they may get traffic",
        "was a record abandoned, or its finalizer taken off? does another cluster use this load balancer? if not: `kubectl lbcf remove-orphans lb/NAME`; of a Bind, or with `memberKey: Address`, take them out at the load balancer itself ([operate.md](operate.md#orphaned-members))",
    )
    NO_ORPHANS = ("NoOrphans", _ORPHANED, "no such member is left")
    MEMBERS_PUT_BACK = (
        "MembersPutBack",
        _RESTORED,
        "the members that it lost when it was reset are registered again",
        "does it restart or reload often? its members got nothing meanwhile: [LbcfLoadBalancerReset](runbooks.md#lbcfloadbalancerreset)",
    )
    REACHABLE = ("Reachable", _REACHABLE, "its driver lists its members")
    NOT_LISTED = (
        "NotListed",
        Where("Load balancers", "Reachable; InService of records"),
        "the driver does not declare listBackends: how the load balancer and its members are is not known",
        "nothing, if that was meant",
    )
    EPOCH_CHANGING = (
        "EpochChanging",
        _REACHABLE,
        "listBackends has shown another epoch again and again",
        "does it lose its members each time? do several processes of the driver answer, each with an epoch of its own? [LbcfEpochChanging](runbooks.md#lbcfepochchanging)",
    )
    ACCEPTED = ("Accepted", _ACCEPTED, "it can be called")
    URL_UNUSABLE = (
        "UrlUnusable",
        _ACCEPTED,
        "its URL is none that can be called",
        "`http://HOST[:PORT][/PATH]` or `https://...`; a URL cannot change: make the driver anew",
    )
    SCOPE_NOT_ALLOWED = (
        "ScopeNotAllowed",
        _ACCEPTED,
        "it has a `spec.scope`, and other namespaces cannot name it, since it is not in kube-system with a name that begins with `lbcf-`; it is called for its own namespace nevertheless",
        "take `spec.scope` out, or make the driver in kube-system as `lbcf-NAME`",
    )
    HEALTHY = ("Healthy", _HEALTHY, "it says that it is well")
    UNHEALTHY = (
        "Unhealthy",
        _HEALTHY,
        "it says that it is not well; it is called nevertheless",
        "its words are in the message",
    )
    CREATING = (
        "Creating",
        _BIND_CREATED,
        "the driver has not created it yet, or answered Running",
        "wait",
    )
    CREATE_FAILED = (
        "CreateFailed",
        _BIND_CREATED,
        "the driver answered Fail",
        "read its words in the message",
    )
    READY = ("Ready", _BIND_READY, "it has its attributes")
    ENSURING = (
        "Ensuring",
        _BIND_READY,
        "the driver has not given it its attributes yet, or answered Running",
        "wait",
    )
    ENSURE_FAILED = (
        "EnsureFailed",
        _BIND_READY,
        "the driver answered Fail",
        "read its words in the message",
    )
    DELETING = (
        "Deleting",
        _BIND_READY,
        "it was taken out, and the driver answered deleteLoadBalancer with Running",
        "wait",
    )
    DELETE_FAILED = (
        "DeleteFailed",
        _BIND_READY,
        "... with Fail",
        "read its words in the message",
    )
    WEBHOOK_ERROR = (
        "WebhookError",
        _BIND,
        "the driver could not be asked, or gave no answer",
        "the message has more: [drivers](#drivers)",
    )
    INVALID_RESPONSE = (
        "InvalidResponse",
        _BIND,
        "what answered was not a driver, or a broken one",
        "the message has more: [drivers](#drivers)",
    )
    CLASS_NOT_FOUND = (
        "ClassNotFound",
        _SERVICE,
        "there is no LoadBalancerClass of the name in `loadBalancerClass`; what the Service has already stays",
        "create the LoadBalancerClass, or give the Service another type and class",
    )
    AWAITING_ADDRESS = (
        "AwaitingAddress",
        Where("Services of type LoadBalancer", "Created of a LoadBalancer"),
        "it is of a Service that has no address of its class yet",
        "`LoadBalancerReady` of the Service says what it waits for",
    )
    ADDRESSES_EXHAUSTED = (
        "AddressesExhausted",
        _SERVICE,
        "all addresses that its class may give are with other Services",
        "add to `addresses` of the LoadBalancerClass, or delete Services; it gets the first that is free",
    )
    POOLS_OVERLAP = (
        "PoolsOverlap",
        _SERVICE,
        "two LoadBalancerClasses may give the same addresses: neither gives any",
        "change `addresses` of one of them",
    )
    PROTOCOL_NOT_SERVED = (
        "ProtocolNotServed",
        _SERVICE,
        "a port is neither TCP nor UDP; the others are served",
        "take the port out of the Service",
    )
    SELECTOR_MISSING = (
        "SelectorMissing",
        _SERVICE,
        "the Service selects no pods",
        "give it a selector, or write a LoadBalancer and a BackendGroup",
    )
    NAME_TAKEN = (
        "NameTaken",
        _SERVICE,
        "a LoadBalancer or BackendGroup that somebody else made has the name that the Service's own would have",
        "delete or rename it",
    )
    INGRESS_UNKNOWN = (
        "IngressUnknown",
        _SERVICE,
        "the load balancers are there, and nobody says where clients reach them",
        "`ingress` of the LoadBalancerClass",
    )
    DERIVATION_REFUSED = (
        "DerivationRefused",
        _SERVICE,
        "the API server refuses to store the LoadBalancer or BackendGroup of a port",
        "the message says which rule, quota or webhook refuses it",
    )
    POD_TERMINATING = ("PodTerminating", _DELETED, "the pod is being deleted")
    POD_FINISHED = ("PodFinished", _DELETED, "the pod has ended for good")
    POD_NOT_READY = (
        "PodNotReady",
        _DELETED,
        "the pod is not ready",
        "its readiness probe; `deregisterPolicy`",
    )
    POD_GONE = ("PodGone", _DELETED, "the pod is gone, or was replaced by a namesake")
    POD_HAS_NO_ADDRESS = (
        "PodHasNoAddress",
        Where("Why a record was deleted, or is not made", "none is made"),
        "the pod is ready and has no IP yet",
        "wait",
    )
    UNSELECTED = (
        "Unselected",
        _DELETED,
        "the group does not list it any more",
        "is that meant? `except`, labels, names, ports",
    )
    LOAD_BALANCER_DETACHED = (
        "LoadBalancerDetached",
        _DELETED,
        "the group does not name this load balancer any more, its `scope` leaves the group's namespace out, or one of the two is being deleted",
        "is that meant?",
    )
    LOAD_BALANCER_REPLACED = (
        "LoadBalancerReplaced",
        _DELETED,
        "the LoadBalancer was made anew with another identity (`status.lbInfo`) or driver; records of the new one are made",
        "was its finalizer taken off, or a backup restored? what it was before may still exist",
    )
    ADDRESS_CHANGED = (
        "AddressChanged",
        _DELETED,
        "the backend has another address now, or another node has its name; a record of the new one is made",
    )
    DUPLICATE = ("Duplicate", _DELETED, "another record says the same")
    NODE_GONE = ("NodeGone", _DELETED, "the node is gone, or no longer selected")
    NODE_EXCLUDED = (
        "NodeExcluded",
        _DELETED,
        "the node has the label `node.kubernetes.io/exclude-from-external-load-balancers`",
    )
    NODE_LEAVING = (
        "NodeLeaving",
        _DELETED,
        "the node is being deleted, or an autoscaler has announced that it goes",
    )
    NO_READY_LOCAL_ENDPOINT = (
        "NoReadyLocalEndpoint",
        _DELETED,
        "no pod of the Service is ready on this node (externalTrafficPolicy Local)",
    )
    NOT_READ = (
        "NotRead",
        _LBCF,
        "whoever runs `kubectl lbcf` may not read what decides: the message names the right",
        "ask for a role with that right: [kubectl.md](kubectl.md#rights)",
    )
    NOT_LOOKED_AT = (
        "NotLookedAt",
        _LBCF,
        "the controller has said nothing about this generation of the group yet",
        "wait some seconds; for ever: does a controller lead?",
    )
    UNREADABLE = (
        "Unreadable",
        _LBCF,
        "the object cannot be understood",
        "mend it; the message names the field",
    )
    NO_LEADER = (
        "NoLeader",
        _LBCF,
        "no process leads, so that nobody does its work",
        "does it run? [LbcfControllerHasNoLeader](runbooks.md#lbcfcontrollerhasnoleader)",
    )


@unique
class EventReason(Explained):
    """What an Event tells that no condition does."""

    BACKENDS_REGISTERED = (
        "BackendsRegistered",
        _GROUP_EVENT,
        "so many were registered, gathered over some seconds",
    )
    BACKENDS_DEREGISTERED = (
        "BackendsDeregistered",
        _GROUP_EVENT,
        "so many were taken out",
    )
    MEMBERS_DOWN = (
        "MembersDown",
        _GROUP_EVENT,
        "load balancers send nothing new to so many members, gathered over some seconds",
        "as for `MemberDown` [above](#records)",
    )
    MEMBERS_BACK = (
        "MembersBack",
        _GROUP_EVENT,
        "so many members that were down are sent new traffic again",
    )
    DRAINS_CUT = (
        "DrainsCut",
        _GROUP_EVENT,
        "so many drains ended at their deadline, gathered over some seconds, with the connections that their drivers last counted",
        "as for [LbcfDrainsCutOff](runbooks.md#lbcfdrainscutoff), if clients minded",
    )
    REMOVALS_HELD = (
        "RemovalsHeld",
        _GROUP_EVENT,
        "a guard begins to hold removals",
        "the reasons of `RemovalsHeld` [above](#groups)",
    )
    DEREGISTRAR_AWAY = (
        "DeregistrarAway",
        Where("Events", "Lease"),
        "no deregistrar has renewed its Lease for 10 s: what is deleted waits, and stays in the load balancer",
        "[LbcfDeregistrarHasNoLeader](runbooks.md#lbcfderegistrarhasnoleader)",
    )
    DEREGISTRAR_BACK = (
        "DeregistrarBack",
        Where("Events", "Lease"),
        "one has it again",
    )
    GATE_TIMED_OUT = (
        "GateTimedOut",
        Where("Events", "pod"),
        "its readiness gate was opened although it is not registered everywhere",
        "the message names whom it waited for",
    )
    ENSURING_LOAD_BALANCER = (
        "EnsuringLoadBalancer",
        _SERVICE_EVENT,
        "it was taken up, with the class that is named",
    )
    ENSURED_LOAD_BALANCER = (
        "EnsuredLoadBalancer",
        _SERVICE_EVENT,
        "all its ports are served, at the address that is named",
    )
    SYNC_LOAD_BALANCER_FAILED = (
        "SyncLoadBalancerFailed",
        _SERVICE_EVENT,
        "a port is not served, with the reason of `LoadBalancerReady`",
        "the reasons [above](#services-of-type-loadbalancer)",
    )
    DELETING_LOAD_BALANCER = (
        "DeletingLoadBalancer",
        _SERVICE_EVENT,
        "its load balancers are drained and deleted",
    )
    DELETED_LOAD_BALANCER = (
        "DeletedLoadBalancer",
        _SERVICE_EVENT,
        "nothing is left of its load balancers",
    )
    ORPHANS_REMOVED = (
        "OrphansRemoved",
        _LOAD_BALANCER_EVENT,
        "members whose records do not exist were taken out, as `kubectl lbcf remove-orphans` was told",
    )
    ORPHANS_KEPT = (
        "OrphansKept",
        _LOAD_BALANCER_EVENT,
        "`lbcf.tkestack.io/remove-orphans` names members that are not taken out: by their driver's words nobody can tell whose they are",
        "take them out at the load balancer itself, and the annotation off",
    )
    ABANDONED = (
        "Abandoned",
        Where("Events", "record, load balancer, driver, Bind"),
        "it was let go by the annotation, without its driver",
        "clear up by hand what the driver still has",
    )


class CallEvent(StrEnum):
    """An answer of a driver, in the Events of `--record-events`, as LBCF in Go named it."""

    SUCC_GENERATE_ADDR = "SuccGenerateAddr"
    RUNNING_GENERATE_ADDR = "RunningGenerateAddr"
    FAILED_GENERATE_ADDR = "FailedGenerateAddr"
    INVALID_GENERATE_ADDR = "InvalidGenerateAddr"
    SUCC_ENSURE_BACKEND = "SuccEnsureBackend"
    RUNNING_ENSURE_BACKEND = "RunningEnsureBackend"
    FAILED_ENSURE_BACKEND = "FailedEnsureBackend"
    INVALID_ENSURE_BACKEND = "InvalidEnsureBackend"
    SUCC_DEREGISTER = "SuccDeregister"
    RUNNING_DEREGISTER = "RunningDeregister"
    FAILED_DEREGISTER = "FailedDeregister"
    INVALID_DEREGISTER = "InvalidDeregister"
    SUCC_CREATE_LOAD_BALANCER = "SuccCreateLoadBalancer"
    RUNNING_CREATE_LOAD_BALANCER = "RunningCreateLoadBalancer"
    FAILED_CREATE_LOAD_BALANCER = "FailedCreateLoadBalancer"
    INVALID_CREATE_LOAD_BALANCER = "InvalidCreateLoadBalancer"
    SUCC_ENSURE_LOAD_BALANCER = "SuccEnsureLoadBalancer"
    RUNNING_ENSURE_LOAD_BALANCER = "RunningEnsureLoadBalancer"
    FAILED_ENSURE_LOAD_BALANCER = "FailedEnsureLoadBalancer"
    INVALID_ENSURE_LOAD_BALANCER = "InvalidEnsureLoadBalancer"
    SUCC_DELETE_LOAD_BALANCER = "SuccDeleteLoadBalancer"
    RUNNING_DELETE_LOAD_BALANCER = "RunningDeleteLoadBalancer"
    FAILED_DELETE_LOAD_BALANCER = "FailedDeleteLoadBalancer"
    INVALID_DELETE_LOAD_BALANCER = "InvalidDeleteLoadBalancer"


ForeignReason = NewType("ForeignReason", str)
"""A reason that an object carries and that this version does not write."""

ConditionReason = Reason | ForeignReason
AnyReason = Reason | EventReason | CallEvent | ForeignReason

_REASONS = {reason.value: reason for reason in Reason}


def read_reason(text: str) -> ConditionReason:
    """Find the reason that an object carries."""
    return _REASONS.get(text) or ForeignReason(intern(text))


@attrs.frozen
class Explanation:
    """Why something is not there, or not decided: a reason, and a sentence for people."""

    reason: Reason
    message: str
