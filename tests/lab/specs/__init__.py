"""The space of specs: chains of changes of every writable field, drawn from the schemas.

    schemas -> chains --stage--> API server, our processes, driver in memory
                                    |
              meaning <-- scene: what is said, and what is registered
                 |
         oracle (consistency, health), pictures (differential, recovery), as in Acto (SOSP'23)

Each chain lives in a namespace of its own; many go on side by side. In its end what came
of it is compared with what comes of the same objects made at once in another namespace.

Of the kinds of bugs that operators have, and where they would show here:

    missed flip A -> B -> A     steps that are undone before anything has come to rest
    unit-equivalent spelling    60s and 1m, 2s and 2000ms, port and portNumber, lbName
    field removed again         BACK, and values of None; status and records by recovery
    nil or empty                None, "", [], {} for every field
    an invalid value blocks valid ones  a load balancer that is not there among others
    no rollback                 BACK from what is impossible: recovery
    misread status              differential: conditions, Services' derived objects
    stale read after restart,
    crash between two writes    --kills; each step of both is `make sweep`'s
    HPA x PDB x gate            nothing scales here: rollouts of `make sweep`
"""
