"""Measures speed and scale on one real control plane: `python -m tests.lab.bench`.

    options -> ground (cluster, driver, our two processes) -> scenario (phases)
      pods (over pipes)     what users do: pods made ready, replaced, deleted
      floor                 the least that it can cost: the same writes, and no more
      ledger, calls, meters what it cost: audit log, driver's history, /proc
    -> outcomes -> verdict (ratios to limits) -> report (table, JSON)

Nothing here asserts: figures are printed beside their limits.
"""
