"""How long readiness gates stay shut: a rollout of a hundred pods at three load balancers.

    python -m tests.lab.rollout

A real API server and our processes; the driver takes its time for each registration. Kubelets
and the Deployment are played here, as `maxUnavailable: 0` has it: an old pod is deleted for
each new one that is Ready. The audit log says when the last record of a pod became
Registered, when its gate was opened, and how often its status was written by us.
"""
