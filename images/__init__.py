"""Container images without a container engine: ours, and one per driver.

    python -m images                     # all, as archives in build/images
    python -m images lbcf haproxy

An archive is what `docker load`, `podman load`, `ctr images import` and `skopeo copy
docker-archive:` read. Beside it is its bill of materials (CycloneDX). Packages are those
of requirements/, by their hashes. `table` says what there is, `build` makes it of the Python that runs
this; `Containerfile` makes the same with an engine. There is no shell and no package
manager inside, nothing is written at run time, and the user is not root.
"""
