"""What is decided, and nothing else: pure functions over frozen values.

The core reads no clock, opens no socket and knows no codec.
`lbcf.wire` turns JSON into the values in here, `lbcf.executor` carries out the
steps that the functions in here ask for, and feeds the replies back:

    eligibility -> desired -> plan -> guards        who should be registered where
    registration, deregistration  <-> steps         the life of one record
"""
