"""What may go wrong with the demo itself, told to people in one line."""


class DemoError(Exception):
    """The demo cannot go on; the message says what happened and what to do."""
