"""Makes the image of the init container of pods that wait: a static busybox, two scripts.

The one image without Python: it is in every pod that waits (docs/gates.md), and what it
puts there has to run beside any app, in images that have no other file.
"""

import shutil

from pathlib import Path
from typing import Final

from images.build import USER, BuildError
from images.sbom import bill_of_files
from lbcf import __version__
from tests.lab.cluster.layers import Layer, save_image


NAME: Final = "wait"
REFERENCE: Final = f"lbcf.local/lbcf-wait:{__version__}"
_SCRIPTS: Final = Path(__file__).with_name("wait")


def build_waiter(folder: Path) -> Path:
    """Make the image, and its bill of materials beside it; return its archive.

    Raises:
        BuildError: there is no busybox on this machine.
    """
    found = shutil.which("busybox")
    if found is None:
        raise BuildError(
            "there is no busybox for the image of pods that wait: install the package "
            "busybox-static"
        )
    files = {"busybox": Path(found)}
    files |= {path.name: path for path in sorted(_SCRIPTS.iterdir())}
    layer = Layer()
    for name, path in files.items():
        layer.add_file(path, name, 0o755)
    archive = folder / f"lbcf-{NAME}.tar"
    start = ["/busybox", "sh", "/install"]
    save_image(REFERENCE, layer, archive, Entrypoint=start, User=USER, WorkingDir="/")
    bill = bill_of_files(REFERENCE, files.items(), archive)
    archive.with_suffix(".cdx.json").write_text(bill, encoding="utf-8")
    return archive
