"""The HAProxy driver against a real HAProxy, with real servers and real requests."""
