"""Both processes, in virtual time, with a fault at each step of their I/O.

scenarios -> run -> World: controller and deregistrar as they ship, over `TinyApi`
                           and `Balancer`; a `Plan` says which step fails, and how
oracle      looks after every effect, and at the end
traces      what each run did, for the model to follow
explore     all single faults, all pairs          python -m tests.lab.sweep
mutants     the same with one guard taken out     python -m tests.lab.sweep --mutants
"""
