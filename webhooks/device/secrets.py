"""Credentials from the files of a Secret.

A Secret that is mounted becomes a folder with one file per key; Kubernetes replaces all
of them at once when it changes. They are small and in memory: they are read each time
somebody asks, so that a change needs no restart, and nothing has to watch them.
"""

from pathlib import Path

import attrs

from webhooks.device.devices import Device
from webhooks.device.errors import NoCredentials


_LARGEST = 64 * 1024
"""Bytes of one file."""


@attrs.frozen
class Login:
    """Who the driver is to a device. Two are equal as long as no file has changed."""

    username: str
    password: str = attrs.field(repr=False)


@attrs.frozen
class Secrets:
    """A folder with `username` and `password`, and others that a product has.

    Attributes:
        folder: for all devices. A folder in it that is called like a device's host is
            for that device, in its place.
    """

    folder: Path

    def read(self, device: Device, name: str) -> str:
        """Return what a file says, without the line end that editors put there.

        Raises:
            NoCredentials: it is missing, empty, too large or no text.
        """
        path = self._folder_of(device) / name
        try:
            if path.stat().st_size > _LARGEST:
                raise NoCredentials(f"{path} has more than {_LARGEST} bytes")
            text = path.read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise NoCredentials(f"no {name} for {device}: {error}") from error
        if not text:
            raise NoCredentials(f"no {name} for {device}: {path} is empty")
        return text

    def read_optional(self, device: Device, name: str, default: str) -> str:
        """Return what a file says; the default where there is no such file.

        Raises:
            NoCredentials: it is there and cannot be used.
        """
        there = (self._folder_of(device) / name).exists()
        return self.read(device, name) if there else default

    def login(self, device: Device) -> Login:
        """Return the name and the password for a device.

        Raises:
            NoCredentials: one of the two files cannot be used.
        """
        return Login(self.read(device, "username"), self.read(device, "password"))

    def _folder_of(self, device: Device) -> Path:
        own = self.folder / device.host
        return own if own.is_dir() else self.folder
