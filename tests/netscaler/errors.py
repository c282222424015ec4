"""What an appliance says when it does not do something: NITRO's numbers and texts.

`configuration` and `unit` raise these, `nitro` makes responses of them. Numbers and
texts are those of the vendor's error table; the HTTP status is in the second table
where a public client depends on it, and 599 where nothing is known: the vendor's
reference has that for whatever is particular to the appliance.
"""

NO_SUCH_RESOURCE = 258
IN_PROGRESS = 293
ALREADY_EXISTS = 273
INVALID_ARGUMENT = 278
NO_SUCH_SERVER = 351
WRONG_PASSWORD = 354
SESSION_EXPIRED = 444
NOT_LOGGED_IN = 1027
NO_SUCH_ARGUMENT = 1090
EXCLUSIVE = 1092
MISSING = 1095
BULK_FAILED = 1243
NOT_AUTHORIZED = 2138

STATUS = {
    NO_SUCH_RESOURCE: (404, "Not Found"),
    NO_SUCH_SERVER: (404, "Not Found"),
    ALREADY_EXISTS: (409, "Conflict"),
    INVALID_ARGUMENT: (400, "Bad Request"),
    NO_SUCH_ARGUMENT: (400, "Bad Request"),
    EXCLUSIVE: (400, "Bad Request"),
    MISSING: (400, "Bad Request"),
    WRONG_PASSWORD: (401, "Unauthorized"),
    SESSION_EXPIRED: (401, "Unauthorized"),
    NOT_LOGGED_IN: (401, "Unauthorized"),
    NOT_AUTHORIZED: (403, "Forbidden"),
}
OTHERWISE = (599, "Netscaler specific error")


class NitroRefusal(Exception):  # noqa: N818  (it is what the appliance says)
    """An operation that the appliance refuses.

    Attributes:
        code: its `errorcode`.
        text: its `message`.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def no_such(argument: str, value: str) -> NitroRefusal:
    """Return the refusal that names what is not there."""
    return NitroRefusal(NO_SUCH_RESOURCE, f"No such resource [{argument}, {value}]")


def exists(argument: str, value: str) -> NitroRefusal:
    """Return the refusal that names what is there already."""
    return NitroRefusal(
        ALREADY_EXISTS, f"Resource already exists [{argument}, {value}]"
    )


def missing(argument: str) -> NitroRefusal:
    """Return the refusal of a body that lacks something."""
    return NitroRefusal(MISSING, f"Required argument missing [{argument}]")
