#!/usr/bin/env python3
"""A client that loads a memcached and believes nothing it answers.

Each thread has its own keys, so it knows what every get must return. Requests are sent in batches; every response
is compared byte for byte.

    memcached_client.py PORT SECONDS THREADS     prints "requests=N errors=N"; exit status 1 if any error
"""
import contextlib
import random
import socket
import sys
import threading
import time

BATCH = 40


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def close(self):
        self.socket.close()

    def expect(self, wanted):
        """Reads as many bytes as `wanted` has; whether they are the same."""
        while len(self.buffer) < len(wanted):
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("memcached closed the connection")
            self.buffer += more
        got, self.buffer = self.buffer[:len(wanted)], self.buffer[len(wanted):]
        return got == wanted


class Worker(threading.Thread):
    def __init__(self, port, number, deadline):
        super().__init__()
        self.port, self.number, self.deadline = port, number, deadline
        self.requests = self.errors = 0
        self.values = {}
        self.random = random.Random(number)

    def one_request(self):
        """A request and the response that it must have."""
        key = b"key-%d-%d" % (self.number, self.random.randrange(200))
        what = self.random.random()
        if key not in self.values or what < 0.3:
            value = b"%x" % self.random.getrandbits(8 * self.random.randrange(1, 300))
            self.values[key] = value
            return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n"
        if what < 0.35:
            del self.values[key]
            return b"delete %s\r\n" % key, b"DELETED\r\n"
        value = self.values[key]
        return b"get %s\r\n" % key, b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)

    def one_batch(self, connection):
        batch = [self.one_request() for _ in range(BATCH)]
        connection.send(b"".join(request for request, _ in batch))
        for _, response in batch:
            self.requests += 1
            if not connection.expect(response):
                self.errors += 1
                return

    def run(self):
        try:
            with contextlib.closing(Connection(self.port)) as connection:
                while time.monotonic() < self.deadline and self.errors == 0:
                    self.one_batch(connection)
        except OSError as error:
            self.errors += 1
            print(f"thread {self.number}: {error}", file=sys.stderr)


def load(port, seconds, threads):
    """Returns (requests answered, errors)."""
    deadline = time.monotonic() + seconds
    workers = [Worker(port, number, deadline) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(w.requests for w in workers), sum(w.errors for w in workers)


def wait_until_up(port, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    done, failed = load(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
    print(f"requests={done} errors={failed}")
    sys.exit(1 if failed else 0)
