"""Says what an image consists of: a software bill of materials (CycloneDX, JSON).

`build` writes one beside each archive. It is read from what was really put into the image,
not from what was asked for: distributions, the interpreter, shared libraries of the system.
"""

import hashlib
import platform
import uuid

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from images.table import Image
from lbcf import __version__


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""As the image's own times: the same image has the same bill."""
_LONGEST: Final = 64
"""Characters of a licence's name; some distributions have its whole text there."""


def bill_of(
    image: Image, packages: Path, shared: Iterable[tuple[str, Path]], archive: Path
) -> str:
    """Write the bill of an image.

    Args:
        image: which.
        packages: the folder with its distributions.
        shared: libraries of the system, by their path in the image.
        archive: the image itself.
    """
    parts = [_interpreter(), *_distributions(packages), *_libraries(shared)]
    return _render(image.reference, parts, archive)


def bill_of_files(
    reference: str, files: Iterable[tuple[str, Path]], archive: Path
) -> str:
    """Write the bill of an image that has no packages, only files by their paths."""
    return _render(reference, [*_libraries(files)], archive)


def _render(reference: str, parts: list[Component], archive: Path) -> str:
    content = _digest(archive)
    whole = Component(
        name=reference.partition(":")[0],
        version=__version__,
        type=ComponentType.CONTAINER,
        bom_ref=reference,
        hashes=[content],
    )
    bill = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, content.content),
        components=parts,
        metadata=BomMetaData(component=whole, timestamp=_EPOCH),
    )
    bill.register_dependency(whole, parts)
    return JsonV1Dot6(bill).output_as_string(indent=2) + "\n"


def _interpreter() -> Component:
    """Say which Python it is."""
    version = platform.python_version()
    return Component(
        name="cpython",
        version=version,
        type=ComponentType.PLATFORM,
        bom_ref="cpython",
        purl=PackageURL("generic", name="cpython", version=version),
    )


def _distributions(packages: Path) -> Iterator[Component]:
    """Say which distributions are installed."""
    found = metadata.distributions(path=[str(packages)])
    for one in sorted(found, key=lambda d: d.name.lower()):
        purl = PackageURL("pypi", name=one.name, version=one.version)
        yield Component(
            name=one.name,
            version=one.version,
            type=ComponentType.LIBRARY,
            bom_ref=str(purl),
            purl=purl,
            licenses=list(_licenses(one)),
        )


def _licenses(one: metadata.Distribution) -> Iterator[License]:
    """Say under which licence a distribution is, where it says so in a word."""
    told = one.metadata.json
    said = told.get("license_expression") or told.get("license") or ""
    line = str(said).strip().partition("\n")[0]
    if line and len(line) <= _LONGEST:
        yield LicenseFactory().make_from_string(line)


def _libraries(shared: Iterable[tuple[str, Path]]) -> Iterator[Component]:
    """Say which files are of the system that the image was built on."""
    for path, file in sorted(shared):
        digest = _digest(file)
        yield Component(
            name=f"/{path}",
            type=ComponentType.FILE,
            bom_ref=f"file:/{path}",
            hashes=[digest],
        )


def _digest(file: Path) -> HashType:
    """Hash a file."""
    content = hashlib.sha256(file.read_bytes()).hexdigest()
    return HashType(alg=HashAlgorithm.SHA_256, content=content)
