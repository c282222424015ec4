"""Whose certificates devices may show: the system's authorities, or those of a file.

The file is mounted as the credentials are, and read as they are, each time that somebody
asks: a changed one needs no restart.
"""

import ssl

from pathlib import Path

import attrs
import structlog

from lbcf.runtime.certificates import trusting
from webhooks.device.errors import InvalidInput


_log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class Trust:
    """How certificates of devices are verified.

    Attributes:
        context: as the file had it last.
        ca_file: authorities as PEM; None: nothing changes.
    """

    context: ssl.SSLContext
    ca_file: Path | None = None
    _content: bytes = b""
    _trouble: str = attrs.field(default="", init=False)

    def current(self) -> ssl.SSLContext:
        """Return how they are verified now; a file that cannot be used changes nothing."""
        if self.ca_file is not None:
            try:
                self._read(self.ca_file)
            except (OSError, ValueError) as error:
                self._tell(str(error))
        return self.context

    def _read(self, ca_file: Path) -> None:
        """Take the authorities of a file that has changed.

        Raises:
            OSError: it cannot be read.
            ValueError: it has none.
        """
        content = ca_file.read_bytes()
        if content != self._content:
            self.context = trusting(content)
            self._content = content
            _log.info("device.authorities_reloaded", file=str(ca_file))
        self._trouble = ""

    def _tell(self, trouble: str) -> None:
        """Log what is wrong with the file, once."""
        if trouble != self._trouble:
            self._trouble = trouble
            _log.error(
                "device.authorities_not_reloaded", file=str(self.ca_file), error=trouble
            )


def read_trust(ca_file: Path | None = None, *, insecure: bool = False) -> Trust:
    """Return how certificates of devices are verified.

    Args:
        ca_file: authorities as PEM, in place of the system's.
        insecure: verify nothing; whoever answers gets the password.

    Raises:
        InvalidInput: the file cannot be used, or both were said.
    """
    if insecure and ca_file is not None:
        raise InvalidInput(
            "--device-ca-file means nothing with --insecure: say one of them"
        )
    if ca_file is not None:
        try:
            content = ca_file.read_bytes()
            return Trust(trusting(content), ca_file, content)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"--device-ca-file {ca_file}: {error}") from error
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return Trust(context)
