"""Events of a trace as babeltrace2 reads them: the independent reader that the tests compare with."""
import re
import subprocess

EVENT = re.compile(r"(?:^|\s)([\w.-]+:[\w.-]+): (.*)$")
FIELD = re.compile(r'(\w+) = (?:\( ?((?:"[^"]*")|<unknown>) : container = (-?\w+) \)|("(?:[^"\\]|\\.)*")|(-?[\w.+]+))')


class Event:
    """name "provider:event"; fields: str -> int, float, or str (an enum: its label)."""
    __slots__ = ("name", "fields")

    def __init__(self, name, fields):
        self.name, self.fields = name, fields


def parse_value(text):
    try:
        return int(text, 0)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def parse_event(line):
    found = EVENT.search(line)
    if not found:
        raise AssertionError(f"not an event: {line!r}")
    fields = {}
    for name, label, _, string, plain in FIELD.findall(found.group(2)):
        fields[name] = label.strip('"') if label else string[1:-1] if string else parse_value(plain)
    return Event(found.group(1), fields)


def events(directory):
    """Yields every event in the order of time. Raises if babeltrace2 fails or says anything but the events."""
    with subprocess.Popen(["babeltrace2", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace") as process:
        for line in process.stdout:
            yield parse_event(line)
        complaint = process.stderr.read()
    if process.returncode != 0 or complaint:
        raise AssertionError(f"babeltrace2 {directory}: status {process.returncode}: {complaint}")
