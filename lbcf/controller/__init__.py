"""The process that decides who is registered where, and registers it.

    pods, groups, load balancers, drivers, records -> View (stores with indexes)
      triggers: change -> keys
        load balancers queue -> LoadBalancers   createLoadBalancer, ensure, delete
        groups queue         -> GroupReconciler snapshot -> desired -> plan -> guards -> apply
        judgements queue     -> Judgements      judgePodDeregister (policy Webhook)
        validations queue    -> Validations     validateBackend
        records queue        -> Registrar       core.lifecycle.registration <-> executor
        status queue         -> GroupStatusReconciler
      MemberResync: listBackends by period -> records of a reset load balancer again

It meets the deregistrar in the API server alone.
"""
