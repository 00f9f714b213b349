"""The socket of the caller's plumb-consumerd, and its messages as docs/consumerd-protocol.md has them; written from that page alone."""
import json
import os
import socket
import struct
from pathlib import Path

FOLDER = Path(f"/dev/shm/plumb-{os.geteuid()}/consumerd")


def receive(connection):
    """One message; None if the other end has closed."""
    def read(count):
        data = b""
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                return None
            data += part
        return data
    head = read(12)
    if head is None:
        return None
    magic, version, _, length = struct.unpack("<4sHHI", head)
    assert (magic, version) == (b"PLCM", 1), head
    return json.loads(read(length))


def framed(body, magic=b"PLCM", version=1, length=None):
    return magic + struct.pack("<HHI", version, 0, len(body) if length is None else length) + body


def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    try:
        connection.connect(str(FOLDER / "control"))
    except OSError:
        connection.close()
        raise
    return connection


def ask(body):
    with connect() as connection:
        connection.sendall(framed(body))
        return receive(connection)
