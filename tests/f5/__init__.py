"""An emulated BIG-IP on real sockets, and the F5 driver on it.

    server: HTTP, who may ask, faults -> unit: what a request does -> config: what is
                                            `-> documents: what is answered

It follows recorded replies of versions 11.5 to 14.1 field by field, types included;
F5's own and other people's clients are run against it in tests/interop. It imports
nothing of the driver.
"""
