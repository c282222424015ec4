"""The processes as users run them, on a real control plane, with a driver on a socket.

`stage` starts and ends them, `objects` talks to the API server, the tests watch what
becomes of pods, records and members.
"""
