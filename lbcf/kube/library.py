"""Imports of kubernetes-asyncio what `connection` needs of it, and not the rest.

Its packages import a model of every kind of Kubernetes as soon as one name of theirs is
asked for: 34 MiB and half a second (measured, version 36), of which the configuration
uses nothing. Here the two packages stand aside while their parts are imported.
"""

import contextlib
import importlib
import importlib.util
import sys

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, Final

import attrs


_ROOT: Final = "kubernetes_asyncio"
_CLIENT: Final = f"{_ROOT}.client"


@attrs.frozen
class Library:
    """The parts.

    Attributes:
        configuration: the class of settings; called without arguments.
        config: the module that reads kubeconfigs and service accounts.
    """

    configuration: Any
    config: Any

    @contextlib.contextmanager
    def brief_files(self) -> Iterator[None]:
        """Keep the files that it writes certificates and keys to no longer than this.

        By itself it removes them when Python ends, and never when that is killed.
        """
        try:
            yield
        finally:
            # No public name for it; without the name the files stay until the end.
            reader = getattr(self.config, "kube_config", None)
            getattr(reader, "_cleanup_temp_files", lambda: None)()


@cache
def library() -> Library:
    """Import the parts; all of the library where it has changed too much for that.

    Raises:
        ImportError: it is not installed.
    """
    if _ROOT not in sys.modules:
        before = set(sys.modules)
        try:
            return _narrow()
        except (ImportError, AttributeError):
            for name in set(sys.modules) - before:
                if name.startswith(_ROOT):
                    del sys.modules[name]
    whole = importlib.import_module(_ROOT)
    return Library(whole.client.Configuration, whole.config)


def _narrow() -> Library:
    """Import the parts, with empty packages in the place of the two that import all.

    These go again afterwards: whoever else wants the library gets the real ones.
    """
    root = _empty(_ROOT, importlib.util.find_spec(_ROOT))
    client = _empty(_CLIENT, None, *(f"{place}/client" for place in root.__path__))
    try:
        settings = importlib.import_module(f"{_CLIENT}.configuration")
        vars(client).update(Configuration=settings.Configuration, ApiClient=object)
        config = importlib.import_module(f"{_ROOT}.config")
    finally:
        for name in (_ROOT, _CLIENT):
            sys.modules.pop(name, None)
    return Library(settings.Configuration, config)


def _empty(name: str, spec: Any, *places: str) -> ModuleType:
    """Put a package in place that imports nothing by itself.

    Raises:
        ImportError: there is no such package.
    """
    if spec is None and not places:
        raise ImportError(f"{name} is not installed")
    package = ModuleType(name)
    package.__path__ = list(places or spec.submodule_search_locations or ())
    sys.modules[name] = package
    return package
