"""What happens to nodes, done to three real ones under load: `python -m tests.lab.nodes`.

    cluster (three nodes) + HAProxy + our processes, or a naive controller -> `bench`
    requests through node ports, all the time                             -> tests.lab.demo
    cordon, drain, taint, label, silence, cut, power off, policy changes  -> `script`
    what each of them cost and broke                                      -> `events`
    docs/nodes.md                                                         <- `page`

Pods of the web app run on n1 and n2 alone, so that a request which fails at n3 failed
for n3: the node that loses its network and its power.
"""
