"""Plays the cluster for the waiter: its DNS, and a replica of the deregistrar.

    unshare --net --mount python -m tests.images.waiting_ground FOLDER

runs in namespaces of its own, and needs FOLDER to look like a container's root with the waiter. DNS
loses the question for IPv6 addresses, as one that is going loses some. The replica says that the pod is
drained. Prints what it was asked, a JSON value a line: `["dns", TYPE, PORT]` or `["gate", PATH]`.
"""

import json
import socket
import struct
import subprocess
import sys
import threading

from pathlib import Path
from typing import Final


HOST: Final = "127.0.0.1"
PORT: Final = 11037
SIZE: Final = 4096
A: Final = 1
YES: Final = b'HTTP/1.1 200 OK\r\n\r\n{"drained":true}'


def _told(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")  # two threads: each line at once
    sys.stdout.flush()


def _answer_names(server: socket.socket) -> None:
    """Answer each question for an IPv4 address with `HOST`, and no other."""
    while True:
        question, client = server.recvfrom(SIZE)
        kind = struct.unpack(">H", question[-4:-2])[0]
        _told("dns", kind, client[1])
        if kind == A:
            head = question[:2] + struct.pack(">5H", 0x8180, 1, 1, 0, 0)
            record = struct.pack(">3HIH", 0xC00C, A, 1, 5, 4) + socket.inet_aton(HOST)
            server.sendto(head + question[12:] + record, client)


def _answer_pods(server: socket.socket) -> None:
    while True:
        client, _ = server.accept()
        with client:
            _told("gate", client.recv(SIZE).decode().split()[1])
            client.sendall(YES)


def main(folder: Path) -> int:
    """Let the waiter run once; return its status."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "--bind", "/proc", folder / "proc"], check=True)
    subprocess.run(["mount", "--bind", "/dev", folder / "dev"], check=True)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names,
        socket.create_server((HOST, PORT)) as gate,
    ):
        names.bind((HOST, 53))
        for answer, server in ((_answer_names, names), (_answer_pods, gate)):
            threading.Thread(target=answer, args=(server,), daemon=True).start()
        waiter = ("chroot", folder, "/lbcf-gate/busybox", "sh", "/lbcf-gate/wait")
        return subprocess.run(waiter, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
