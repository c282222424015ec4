"""The decisions of the project: pure functions over frozen values.

The core reads no clock, opens no socket and knows no codec. `lbcf.wire` decodes JSON into
the values of `model`; `selection` decides which records a group should have (eligibility,
desired, plan); `lifecycle` decides the next step for a record or a load balancer, which
`lbcf.executor` performs, and learns from the reply.
"""
