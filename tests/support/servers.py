"""A server in a process of its own, and its answers."""

import socket
import subprocess
import time
import urllib.request

PATIENCE_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer(server: subprocess.Popen[bytes], address: str) -> bytes:
    """Return the server's answer, as soon as it responds."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as reply:
                return bytes(reply.read())
        except OSError:
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server did not answer"
            time.sleep(0.1)
