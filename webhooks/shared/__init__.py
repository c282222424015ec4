"""What drivers read and answer alike, whatever they drive.

    request -> addresses, parameters, objects: what it says, as values
               outcomes: how far the work is, and the answer of a dry run
               gathering: one operation on several load balancers at once

Drivers above bring their own errors and words; nothing here talks to anybody.
"""
