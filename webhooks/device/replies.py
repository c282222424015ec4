"""What a device answered, taken apart with care: bodies are not always JSON.

A management interface that restarts, or a proxy before it, answers with a page of HTML
and any status. `connection` makes these values, clients of products read them.
"""

import re

from collections.abc import Mapping

import attrs
import msgspec

from webhooks.device.errors import Unreadable


Document = Mapping[str, object]

_TAG = re.compile(r"<[^>]*>")
_SHOWN = 120
"""Characters of a body that are repeated in messages."""


@attrs.frozen
class Reply:
    """One whole answer.

    Attributes:
        status: of HTTP.
        body: bounded by the connection.
        content_type: without parameters, in small letters; empty where unsaid.
        headers: by their names in small letters; of those that came twice the last.
    """

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether the status says that it was done."""
        return 200 <= self.status < 300  # noqa: PLR2004

    @property
    def document(self) -> Document | None:
        """The JSON object that the body is; None: it is something else."""
        try:
            said = msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, ValueError):
            return None
        return said if isinstance(said, dict) else None

    def expect_document(self, of: object) -> Document:
        """Return the JSON object.

        Raises:
            Unreadable: the body is none.
        """
        document = self.document
        if document is None:
            raise Unreadable(
                f"{of} answered HTTP {self.status} without a JSON object: {self.gist}"
            )
        return document

    @property
    def gist(self) -> str:
        """The beginning of the body as one line of plain text."""
        text = _TAG.sub(" ", self.body[:4096].decode("utf-8", errors="replace"))
        words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return repr(words[:_SHOWN]) if words else "an empty body"
