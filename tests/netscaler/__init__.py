"""Tests of the Citrix ADC driver, and the appliance that they run on.

    errors -> configuration (servers, groups, members) -> unit (running, saved, sessions)
                  traffic (connections)                      `-> pair (two units)
              replies (what is told of them) -> nitro (HTTP) -> appliances (sockets)

No appliance can be had in a test run. This one follows the vendor's NITRO reference
field by field and, where public recordings of real appliances exist, those: numbers are
strings there, but ports and rates are not. Clients of other people talk to it in
`tests/interop`.
"""
