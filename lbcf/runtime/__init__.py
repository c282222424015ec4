"""What any process of this project runs on: clock, queue, workers, logs, probes.

Nothing here knows Kubernetes or drivers. Triggers put keys into `queue`, `worker` takes
them out and calls a reconcile function, whose `Result` says when to come again.
"""
