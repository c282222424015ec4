"""Where the driver's credentials come from.

The usual chain of AWS (environment, shared files, web identity, container, instance),
or a folder with one file per value, as a Secret is mounted: that is read at each
signature, so that a Secret that was renewed needs no restart.
"""

import functools

from pathlib import Path

from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession, get_session
from botocore.credentials import CredentialProvider, ReadOnlyCredentials
from botocore.loaders import Loader, create_loader

from webhooks.elbv2.errors import InvalidInput, Unreachable


ACCESS_KEY = "aws_access_key_id"
SECRET_KEY = "aws_secret_access_key"  # noqa: S105  (the name of a file)
SESSION_TOKEN = "aws_session_token"  # noqa: S105  (the same)


class FolderCredentials(AioCredentials):
    """The credentials that are in a folder now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__("", "")

    async def get_frozen_credentials(self) -> ReadOnlyCredentials:  # type: ignore[override]
        """Read the files; they are short, and in memory where a Secret is mounted.

        Its base is a coroutine too; the stubs do not say so.

        Raises:
            Unreachable: one is missing or empty.
        """
        return ReadOnlyCredentials(
            _read(self._folder, ACCESS_KEY),
            _read(self._folder, SECRET_KEY),
            _read(self._folder, SESSION_TOKEN, optional=True) or None,
        )


class _FolderProvider(CredentialProvider):
    """Hands them to the client."""

    METHOD: str | None = "lbcf-folder"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def load(self) -> FolderCredentials:
        """Return them; they are read when they are needed."""
        return FolderCredentials(self._folder)


def _read(folder: Path, name: str, *, optional: bool = False) -> str:
    """Return what a file says, without the line end that editors leave."""
    try:
        text = (folder / name).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable(f"credentials: {folder / name} is unreadable: {error}") from (
            error
        )
    if not text and not optional:
        raise Unreachable(f"credentials: {folder / name} is missing or empty")
    return text


@functools.cache
def _models() -> Loader:
    return create_loader()


def make_session(folder: Path | None) -> AioSession:
    """Return a session with the credentials of the folder, or of AWS' chain.

    Raises:
        InvalidInput: there is no such folder.
    """
    session = get_session()
    session.register_component("data_loader", _models())
    if folder is None:
        return session
    if not folder.is_dir():
        raise InvalidInput(f"--credentials-dir {folder} is no folder")
    resolver = session.get_component("credential_provider")
    resolver.providers.insert(0, _FolderProvider(folder))
    return session
