"""A thin client for the real API server: JSON in, status code and JSON out.

kubectl would take 0.1 s for each of several hundred objects; this takes a few
milliseconds and shows the API server's own words.
"""

import base64
import json
import ssl
import tempfile

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import attrs
import yaml

from tests.manifests.documents import Document, crds


GUARD = "lbcf.tkestack.io"
TRIAL = "dryRun=All&fieldValidation=Strict"
FOR_GOOD = "fieldValidation=Strict"


@attrs.frozen
class Answer:
    """What the API server answered.

    Attributes:
        code: the HTTP status.
        body: the object, or a Status that says what is wrong.
        warnings: for whoever asked, as kubectl prints them.
    """

    code: int
    body: Document
    warnings: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the request was taken."""
        return self.code in {200, 201}

    @property
    def message(self) -> str:
        """What is wrong, in the API server's words."""
        return str(self.body.get("message", ""))


@attrs.frozen
class Api:
    """The API server, and the namespace for objects that name none."""

    connection: HTTPSConnection
    namespace: str

    @classmethod
    @contextmanager
    def connect(cls, kubeconfig: Path, namespace: str) -> Iterator[Self]:
        """Connect as the user of a kubeconfig with certificates inside."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        parts = ("client-certificate-data", "client-key-data")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"\n".join(base64.b64decode(user[part]) for part in parts))
            file.flush()
            context.load_cert_chain(file.name)
        host = urlsplit(cluster["server"]).netloc
        with closing(HTTPSConnection(host, context=context)) as connection:
            yield cls(connection, namespace)

    def send(
        self,
        verb: str,
        path: str,
        body: Mapping[str, object] | None = None,
        content: str = "application/json",
    ) -> Answer:
        """Send one request."""
        text = None if body is None else json.dumps(body)
        self.connection.request(verb, path, text, {"Content-Type": content})
        with self.connection.getresponse() as answer:
            told = answer.headers.get_all("Warning", ())
            warnings = tuple(one.partition('"')[2].removesuffix('"') for one in told)
            return Answer(answer.status, json.loads(answer.read()), warnings)

    def path_of(self, document: Document, *, named: bool = True) -> str:
        """The path of an object, or of the list that it is created in."""
        spec = crds()[document["kind"]]["spec"]
        group = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"
        plural = spec["names"]["plural"]
        namespace = document["metadata"].get("namespace", self.namespace)
        inside = "" if spec["scope"] == "Cluster" else f"/namespaces/{namespace}"
        path = f"{group}{inside}/{plural}"
        return f"{path}/{document['metadata']['name']}" if named else path

    def create(self, document: Document, how: str = TRIAL) -> Answer:
        """Create an object; by default as a trial that stores nothing."""
        return self.send(
            "POST", f"{self.path_of(document, named=False)}?{how}", document
        )

    def apply(self, document: Document) -> Answer:
        """Create or change an object for good, as `kubectl apply --server-side` does."""
        path = f"{self.path_of(document)}?fieldManager=tests&{FOR_GOOD}"
        content = "application/apply-patch+yaml"
        return self.send("PATCH", path, document, content)

    def read(self, document: Document) -> Document:
        """The object as it is stored."""
        return self.send("GET", self.path_of(document)).body

    def replace(self, document: Document, part: str = "", how: str = TRIAL) -> Answer:
        """Replace an object, or with part `status` its status; by default as a trial."""
        tail = f"/{part}" if part else ""
        return self.send("PUT", f"{self.path_of(document)}{tail}?{how}", document)

    def delete(self, document: Document, how: str = "") -> Answer:
        """Delete an object."""
        return self.send("DELETE", f"{self.path_of(document)}?{how}")

    def remove(self, document: Document) -> None:
        """Delete an object, whatever label guards it."""
        free = {f"{GUARD}/do-not-delete": None, f"{GUARD}/driver-draining": "true"}
        patch = {"metadata": {"labels": free, "finalizers": None}}
        content = "application/merge-patch+json"
        self.send("PATCH", self.path_of(document), patch, content)
        self.delete(document)

    def store(self, document: Document) -> Document:
        """Create an object for good, with its status; the object as it is stored.

        Raises:
            AssertionError: it is refused.
        """
        made = self.create(document, FOR_GOOD)
        assert made.accepted, made.message
        if "status" not in document:
            return made.body
        done = self.replace(
            {**made.body, "status": document["status"]}, "status", FOR_GOOD
        )
        assert done.accepted, done.message
        return done.body
