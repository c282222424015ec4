"""The command lines of the control plane.

`supervisor` runs what `first_services` names, waits for the API server, and then
runs `later_services`: before the API server is ready its built-in RBAC roles are
missing and kube-controller-manager ends with "forbidden".
"""

from tests.lab.cluster.layout import POD_RANGE, SERVICE_RANGE, Layout, Options, Plan
from tests.lab.cluster.services import Service


# What the audit log holds of each request: who, what, answer; bodies only where they
# are asked for. One line per request, when it is complete.
_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
"""
_BODIES = """\
- level: RequestResponse
  verbs: [get, create, update, patch, delete]
  resources:
  - {group: lbcf.tkestack.io, resources: [backendrecords, backendrecords/status]}
  - {group: lbcf.tkestack.io, resources: [loadbalancerdrivers]}
  - {group: coordination.k8s.io, resources: [leases]}
"""
_REST = "- {level: Metadata}\n"
# lumberjack, the log's writer, takes 0 for its own default of 100 MB and would
# then move the file away while a test reads it.
AUDIT_MEGABYTES = 100_000
_NO_POD_COLLECTOR = ("--controllers=*,-pod-garbage-collector-controller",)


def audit_policy(options: Options) -> str:
    """What the audit log is to hold."""
    bodies = _BODIES if options.audit_bodies else ""
    return f"{_POLICY}{bodies}{_REST}"


def first_services(layout: Layout, plan: Plan) -> list[Service]:
    """The services that need nothing else."""
    return [_etcd(layout, plan), _api_server(layout, plan)]


def later_services(layout: Layout, plan: Plan) -> list[Service]:
    """The services that need a ready API server."""
    services = []
    if plan.has("kube-controller-manager"):
        services.append(_controllers(layout, plan))
    if plan.options.nodes:
        services.append(_scheduler(layout, plan))
    return services


def _flags(**flags: object) -> tuple[str, ...]:
    """Flags from keywords: `client_ca_file=x` is `--client-ca-file=x`."""
    words = {True: "true", False: "false"}
    return tuple(
        f"--{name.replace('_', '-')}={words[flag] if isinstance(flag, bool) else flag}"
        for name, flag in flags.items()
    )


def _etcd(layout: Layout, plan: Plan) -> Service:
    """The store; nothing of it is ever synced to the disk."""
    client, peer = (f"http://127.0.0.1:{port}" for port in plan.etcd_ports)
    flags = _flags(
        name="etcd",
        data_dir=layout.root / "etcd",
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"etcd={peer}",
        log_level="warn",
    )
    return Service("etcd", (plan.binary("etcd"), *flags, "--unsafe-no-fsync"))


def _api_server(layout: Layout, plan: Plan) -> Service:
    """The API server, with its default admission and NodeRestriction."""
    flags = _flags(
        bind_address=plan.address,
        advertise_address=plan.address,
        secure_port=plan.api_port,
        etcd_servers=f"http://127.0.0.1:{plan.etcd_ports[0]}",
        authorization_mode="Node,RBAC",
        enable_admission_plugins="NodeRestriction",
        allow_privileged=True,
        service_cluster_ip_range=SERVICE_RANGE,
        # The API server is on no node and reaches no Service address: webhooks are
        # called at their endpoints.
        enable_aggregator_routing=True,
        kubelet_preferred_address_types="InternalIP",
        audit_policy_file=layout.root / "audit-policy.yaml",
        audit_log_path=layout.audit_log,
        audit_log_maxsize=AUDIT_MEGABYTES,
        # A loopback address is refused as endpoint of the Service `kubernetes`.
        endpoint_reconciler_type="lease" if plan.options.nodes else "none",
    )
    argv = (
        plan.binary("kube-apiserver"),
        *flags,
        *_api_keys(layout),
        *plan.options.api_flags,
    )
    return Service("kube-apiserver", argv)


def _api_keys(layout: Layout) -> tuple[str, ...]:
    """The flags that name the API server's keys and authorities."""
    pki = layout.pki
    return _flags(
        client_ca_file=pki / "ca.crt",
        tls_cert_file=pki / "apiserver.crt",
        tls_private_key_file=pki / "apiserver.key",
        service_account_issuer="https://kubernetes.default.svc.cluster.local",
        service_account_key_file=pki / "service-accounts.pub",
        service_account_signing_key_file=pki / "service-accounts.key",
        kubelet_client_certificate=pki / "apiserver-kubelet-client.crt",
        kubelet_client_key=pki / "apiserver-kubelet-client.key",
        kubelet_certificate_authority=pki / "ca.crt",
        requestheader_client_ca_file=pki / "front-proxy-ca.crt",
        requestheader_allowed_names="front-proxy-client",
        requestheader_extra_headers_prefix="X-Remote-Extra-",
        requestheader_group_headers="X-Remote-Group",
        requestheader_username_headers="X-Remote-User",
        proxy_client_cert_file=pki / "front-proxy-client.crt",
        proxy_client_key_file=pki / "front-proxy-client.key",
    )


def _logins(layout: Layout, name: str) -> tuple[str, ...]:
    """The flags by which a component finds the API server; it serves nothing."""
    path = layout.pki / f"{name}.kubeconfig"
    return _flags(
        kubeconfig=path,
        authentication_kubeconfig=path,
        authorization_kubeconfig=path,
        secure_port=0,
        leader_elect=False,
    )


def _controllers(layout: Layout, plan: Plan) -> Service:
    """The controllers: namespaces, garbage collection, Deployments, node health."""
    name, pki = "kube-controller-manager", layout.pki
    flags = _flags(
        service_account_private_key_file=pki / "service-accounts.key",
        root_ca_file=pki / "ca.crt",
        cluster_signing_cert_file=pki / "ca.crt",
        cluster_signing_key_file=pki / "ca.key",
        use_service_account_credentials=True,
        # It would make a folder in /usr/libexec otherwise.
        flex_volume_plugin_dir=layout.root / "flex",
        allocate_node_cidrs=False,
        cluster_cidr=POD_RANGE,
        service_cluster_ip_range=SERVICE_RANGE,
        # The default of 20 per second makes the first start take 5 s (measured: a
        # service account is made for each controller, one after the other).
        kube_api_qps=500,
        kube_api_burst=500,
    )
    # Without nodes no pod is bound, and within 20 s the collector of pods would call
    # those that terminate failed.
    left_out = () if plan.options.nodes else _NO_POD_COLLECTOR
    more = (*left_out, *plan.options.controller_flags)
    return Service(name, (plan.binary(name), *_logins(layout, name), *flags, *more))


def _scheduler(layout: Layout, plan: Plan) -> Service:
    """The scheduler; without nodes there is nothing to schedule on."""
    name = "kube-scheduler"
    return Service(name, (plan.binary(name), *_logins(layout, name)))
