"""What batches save, driver by driver: `python -m tests.lab.batches`.

The callers are those of the controller and the deregistrar (`lbcf.drivers`), without an API
server; the drivers are served as they ship, before the emulators and the HAProxy of their tests.
"""
