"""The ground that drivers of appliances with a REST interface share.

    driver -> attempts.attempt: an operation's time, and its errors as the SDK has them
       |
       v
    a client of the product -> retries.until_free -> connection.exchange -> the device
       |                                                |
       |  logins, secrets, refused: who we are          `- replies: what it answered
       `- saving: its configuration to disk, now and then; looks: what was listed last

A driver brings what is its product's own: paths, sessions, what a refusal means. The
rest is here, so that all of them are as careful: TLS is verified (`trust`), redirects are not
followed, bodies and times are bounded, credentials go to devices that the operator
listed and to nobody else (`devices`).
"""
