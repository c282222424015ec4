"""`kubectl lbcf`, also `lbcf ctl`: answers for people, from the decisions' own code.

    flags -> reading: lists of the API server, side by side -> the controller's View
      overview   what is wrong, and what there is     status
      backends, groups, balancers, drivers            why
      drains     records on their way out             drains
      plans      what the controller would write      plan
      abandon    the one thing that it writes         abandon
      lookups    why something has not been found     all of them
    -> a report, which is a value -> tables, or json -> the terminal

Before it: the API server, as the caller may read it. After it: a person. It runs no
process, calls no driver, and what it says of eligibility, plans and guards comes from
`lbcf.core` and `lbcf.controller`, where it is decided.
"""
