"""Any message of the driver protocol, for property tests."""

from datetime import UTC

from hypothesis import strategies as st

from lbcf.core.model.operations import BATCHED, Operation
from lbcf.core.model.values import MemberKey
from lbcf.wire import driver_answers as answers
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver import LONGEST_DELAY, LONGEST_MESSAGE
from lbcf.wire.plain import plain


texts = st.text(st.characters(codec="utf-8"), max_size=8)
plains = texts.map(plain)
maps = st.dictionaries(texts, texts, max_size=3)
moments = st.datetimes(timezones=st.just(UTC))
wholes = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2)
        ),
        max_leaves=4,
    ),
    max_size=3,
)
ports = st.builds(
    requests.PortSelector,
    port=st.integers(1, 65535),
    protocol=st.sampled_from(["TCP", "UDP"]),
)
ingresses = st.none() | st.lists(
    st.builds(
        answers.Ingress,
        ip=st.ip_addresses().map(str),
        ports=st.lists(
            st.builds(
                answers.IngressPort,
                port=st.integers(1, 65535),
                protocol=st.sampled_from(["TCP", "UDP"]),
            ),
            max_size=2,
        ),
    )
    | st.just(answers.Ingress(hostname="lb.example.com", ports=[])),
    max_size=2,
)
optional_maps = st.none() | maps
validations = st.sampled_from(requests.ValidationOperation)
node_addresses = st.builds(requests.NodeAddress, type=texts, address=texts)

member_keys = st.none() | st.sampled_from(MemberKey)

attempt = {
    "record_id": texts,
    "retry_id": texts,
    "dry_run": st.booleans(),
    "not_after": st.none() | moments,
}
member = {
    **attempt,
    "lb_info": maps,
    "backend_addr": texts,
    "parameters": maps,
    "injected_info": maps,
    "member_key": member_keys,
}
balancer = {**attempt, "lb_info": maps, "attributes": maps}
generation = {
    **attempt,
    "lb_info": maps,
    "lb_attributes": maps,
    "parameters": maps,
    "member_key": member_keys,
}
ending = {
    "status": st.sampled_from(answers.Status),
    "msg": st.text(st.characters(codec="utf-8"), max_size=LONGEST_MESSAGE).map(plain),
    "min_retry_delay_in_seconds": st.integers(0, LONGEST_DELAY),
}

REQUESTS: dict[Operation, st.SearchStrategy[requests.Request[answers.Answer]]] = {
    Operation.HEALTHZ: st.builds(requests.HealthzRequest),
    Operation.VALIDATE_LOAD_BALANCER: st.builds(
        requests.ValidateLoadBalancerRequest,
        lb_spec=maps,
        operation=validations,
        attributes=maps,
        old_attributes=optional_maps,
        member_key=member_keys,
    ),
    Operation.CREATE_LOAD_BALANCER: st.builds(
        requests.CreateLoadBalancerRequest,
        **attempt,
        lb_spec=maps,
        attributes=maps,
        member_key=member_keys,
    ),
    Operation.ENSURE_LOAD_BALANCER: st.builds(
        requests.EnsureLoadBalancerRequest, **balancer, member_key=member_keys
    ),
    Operation.DELETE_LOAD_BALANCER: st.builds(
        requests.DeleteLoadBalancerRequest, **balancer
    ),
    Operation.VALIDATE_BACKEND: st.builds(
        requests.ValidateBackendRequest,
        backend_type=st.sampled_from(requests.BackendType),
        lb_info=maps,
        operation=validations,
        parameters=maps,
        old_parameters=optional_maps,
    ),
    Operation.GENERATE_BACKEND_ADDR: st.one_of(
        st.builds(
            requests.GenerateBackendAddrRequest,
            **generation,
            pod_backend=st.builds(requests.PodBackend, pod=wholes, port=ports),
        ),
        st.builds(
            requests.GenerateBackendAddrRequest,
            **generation,
            service_backend=st.builds(
                requests.ServiceBackend,
                service=wholes,
                port=ports,
                node_name=texts,
                node_addresses=st.lists(node_addresses, max_size=2),
            ),
        ),
        st.builds(
            requests.GenerateBackendAddrRequest,
            **generation,
            node_backend=st.builds(requests.NodeBackend, node=wholes, port=ports),
        ),
    ),
    Operation.ENSURE_BACKEND: st.builds(requests.EnsureBackendRequest, **member),
    Operation.DEREGISTER_BACKEND: st.builds(
        requests.DeregisterBackendRequest, **member, drained=st.booleans()
    ),
    Operation.JUDGE_POD_DEREGISTER: st.builds(
        requests.JudgePodDeregisterRequest, not_ready_pods=st.lists(wholes, max_size=2)
    ),
    Operation.LIST_BACKENDS: st.builds(
        requests.ListBackendsRequest, lb_info=maps, attributes=maps
    ),
    Operation.DRAIN_BACKEND: st.builds(
        requests.DrainBackendRequest,
        **member,
        drain=st.none()
        | st.builds(requests.Drain, started_at=moments, deadline=moments),
    ),
}
for _one, _kind in (
    (Operation.ENSURE_BACKEND, requests.EnsureBackendsRequest),
    (Operation.DEREGISTER_BACKEND, requests.DeregisterBackendsRequest),
    (Operation.DRAIN_BACKEND, requests.DrainBackendsRequest),
):
    _items = st.lists(
        REQUESTS[_one],
        min_size=1,
        max_size=3,
        unique_by=lambda item: getattr(item, "record_id", ""),
    )
    REQUESTS[BATCHED[_one]] = st.builds(_kind, items=_items)

results = {
    **ending,
    "injected_info": optional_maps,
    "record_id": texts,
    "retry_singly": st.booleans(),
}

ANSWERS: dict[Operation, st.SearchStrategy[answers.Answer]] = {
    Operation.HEALTHZ: st.builds(answers.HealthzAnswer, healthy=st.booleans()),
    Operation.VALIDATE_LOAD_BALANCER: st.builds(
        answers.ValidationAnswer, succ=st.booleans(), msg=plains
    ),
    Operation.CREATE_LOAD_BALANCER: st.builds(
        answers.CreateLoadBalancerAnswer,
        **ending,
        lb_info=maps,
        lock_key=texts,
        ingress=ingresses,
    ),
    Operation.ENSURE_LOAD_BALANCER: st.builds(
        answers.EnsureLoadBalancerAnswer, **ending, lock_key=texts, ingress=ingresses
    ),
    Operation.DELETE_LOAD_BALANCER: st.builds(answers.RetriedAnswer, **ending),
    Operation.VALIDATE_BACKEND: st.builds(
        answers.ValidationAnswer, succ=st.booleans(), msg=plains
    ),
    Operation.GENERATE_BACKEND_ADDR: st.builds(
        answers.GenerateBackendAddrAnswer, **ending, backend_addr=plains
    ),
    Operation.ENSURE_BACKEND: st.builds(
        answers.BackendAnswer,
        **ending,
        injected_info=optional_maps,
        in_service=st.none() | st.booleans(),
    ),
    Operation.DEREGISTER_BACKEND: st.builds(
        answers.BackendAnswer, **ending, injected_info=optional_maps
    ),
    Operation.JUDGE_POD_DEREGISTER: st.builds(
        answers.JudgePodDeregisterAnswer,
        succ=st.booleans(),
        do_not_deregister=st.lists(wholes, max_size=2),
    ),
    Operation.LIST_BACKENDS: st.builds(
        answers.ListBackendsAnswer,
        status=st.sampled_from(answers.Status),
        epoch=plains,
        backends=st.lists(
            st.builds(
                answers.ListedBackend,
                backend_addr=plains,
                record_id=plains,
                state=st.sampled_from(answers.BackendState),
                active_connections=st.integers(0, 99),
            ),
            max_size=2,
        ),
    ),
    Operation.DRAIN_BACKEND: st.builds(
        answers.DrainBackendAnswer,
        **ending,
        injected_info=optional_maps,
        active_connections=st.none() | st.integers(0, 99),
    ),
    **dict.fromkeys(
        (Operation.ENSURE_BACKENDS, Operation.DEREGISTER_BACKENDS),
        st.builds(
            answers.BackendsAnswer,
            results=st.lists(
                st.builds(answers.BackendResult, **results),
                max_size=3,
                unique_by=lambda result: result.record_id,
            ),
        ),
    ),
    Operation.DRAIN_BACKENDS: st.builds(
        answers.DrainBackendsAnswer,
        results=st.lists(
            st.builds(
                answers.DrainResult,
                **results,
                active_connections=st.none() | st.integers(0, 99),
            ),
            max_size=3,
            unique_by=lambda result: result.record_id,
        ),
    ),
}
