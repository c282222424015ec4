"""`kubectl lbcf`, also `lbcf ctl`: answers for people, from the decisions' own code.

A command reads lists of the API server side by side into the controller's `View`, makes
a report of it, which is a frozen value, and writes that as tables or JSON. Eligibility,
plans and guards come from `lbcf.core` and `lbcf.controller`; no driver is called, and
`abandon`, `drain` and `undrain` alone write, an annotation each.
"""
