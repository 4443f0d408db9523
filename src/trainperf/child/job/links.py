"""Memory's and the loopback's speed on this machine, measured in a moment."""

from __future__ import annotations

import socket
import threading
import time

COPIED = 32 * 1024**2
"""Bytes; more than a processor's caches, so that they come from memory."""
SENT = 64 * 1024**2
CHUNK = 1024**2
TIMEOUT_S = 5.0


def copy_bytes_s() -> float:
    """Bytes per second at which one thread copies memory, the best of three passes."""
    source = bytearray(COPIED)
    target = bytearray(COPIED)
    best = 0.0
    for _ in range(4):  # the first touches the pages
        began = time.monotonic()
        target[:] = source
        best = max(best, COPIED / max(time.monotonic() - began, 1e-9))
    return best


def loopback_bytes_s() -> float:
    """Bytes per second of one TCP connection over 127.0.0.1.

    Raises:
        OSError: There is no loopback to be had.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        sender = threading.Thread(target=_send, args=(server.getsockname(),), daemon=True)
        sender.start()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            into = bytearray(CHUNK)
            got, began = 0, time.monotonic()
            while read := connection.recv_into(into):
                got += read
            took = time.monotonic() - began
        sender.join(TIMEOUT_S)
    if got < SENT:
        raise OSError("the connection over the loopback broke")
    return got / max(took, 1e-9)


def _send(address: tuple[str, int]) -> None:
    block = bytes(CHUNK)
    try:
        with socket.create_connection(address, TIMEOUT_S) as connection:
            for _ in range(SENT // CHUNK):
                connection.sendall(block)
    except OSError:
        return  # the receiver says so
