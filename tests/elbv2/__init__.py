"""The ELBv2 driver on an emulator that speaks the API on a real socket."""
