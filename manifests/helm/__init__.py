"""Makes a Helm chart of the kustomize manifests, so that there is one source of both.

    python -m manifests.helm            # writes build/chart

`source` lets kubectl put the manifests together; `settings` says what of them a value
sets, and takes its default from there; `templates` puts expressions in these places;
`chart` writes values, their schema and the rest. The default values give what
`overlays/default` gives.
"""
