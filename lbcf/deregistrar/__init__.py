"""The process that ends what is to end: drain, deregister, finalizer off.

    records with a deletionTimestamp -> queue -> Deregistrar
        core.lifecycle.deregistration <-> executor       Drained, Deregistered, gone

Members whose records do not exist are taken out where a person has confirmed them (`orphans`).

It has its own client, its own queue and its own budget of calls: removals never wait
behind registrations. It cannot create records, and meets the controller in the API
server alone.
"""
