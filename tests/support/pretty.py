"""Every field of every event, with its value, from the text that babeltrace2 writes: arrays and enumerations too.

    for name, fields in pretty.events(directory): ...

`name` is "provider:event". In `fields` are the event's fields and its contexts: integers as int, floats as the text
that babeltrace2 shows (it shows six digits), strings as str, arrays as lists, enumerations as Label(label, value).
"""
import collections
import subprocess

Label = collections.namedtuple("Label", "label value")


class Reader:
    """A value of babeltrace2's text format, read from `text` at `at`."""

    def __init__(self, text, at=0):
        self.text, self.at = text, at

    def skip(self, token):
        if not self.text.startswith(token, self.at):
            raise ValueError(f"expected {token!r} at {self.at}: {self.text!r}")
        self.at += len(token)

    def peek(self, token):
        return self.text.startswith(token, self.at)

    def until(self, *stops):
        start = self.at
        while not any(self.text.startswith(stop, self.at) for stop in stops):
            self.at += 1
            if self.at > len(self.text):
                raise ValueError(f"no {stops} behind {start}: {self.text!r}")
        return self.text[start:self.at]

    def string(self):
        self.skip('"')
        value = []
        while not self.peek('"'):
            if self.peek("\\"):
                self.at += 1
            value.append(self.text[self.at])
            self.at += 1
        self.skip('"')
        return "".join(value)

    def value(self):
        if self.peek('"'):
            return self.string()
        if self.peek("("):
            self.skip("( ")
            label = self.string() if self.peek('"') else self.until(" :")
            self.skip(" : container = ")
            number = int(self.until(" )"), 0)
            self.skip(" )")
            return Label(label, number)
        if self.peek("["):
            return self.items("[", "]", lambda: self.until(" = "))[1]
        if self.peek("{"):
            return dict(zip(*self.items("{", "}", lambda: self.until(" = "))))
        text = self.until(",", " ", "\n")
        try:
            return int(text, 0)
        except ValueError:
            return text

    def items(self, opening, closing, read_name):
        """A list or structure: names and values."""
        self.skip(opening)
        names, values = [], []
        self.skip(" ")
        while not self.peek(closing):
            names.append(read_name())
            self.skip(" = ")
            values.append(self.value())
            if self.peek(","):
                self.skip(", ")
            else:
                self.skip(" ")
        self.skip(closing)
        return names, values


def parse(line):
    """"[time] (+delta) host provider:event: { contexts }, { fields }" -> (name, fields)."""
    head, _, _ = line.partition(": {")
    name = head.rstrip(": \n").split()[-1]
    fields = {}
    reader = Reader(line, len(head) + 2)
    while reader.peek("{"):
        fields.update(reader.value())
        if reader.peek(", "):
            reader.skip(", ")
    # babeltrace2 2.0.4 shows an earlier event's text where this event's has no bytes (fixed in later versions);
    # the length, which it shows too, is right.
    for field, length in [item for item in fields.items() if item[0].endswith("_length") and item[1] == 0]:
        text = field[1:-len("_length")]
        if isinstance(fields.get(text), str):
            fields[text] = ""
    return name, fields


def events(directory):
    """Yields (name, fields) in the order of time; AssertionError if babeltrace2 fails or warns."""
    process = subprocess.run(["babeltrace2", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace", check=False)
    assert process.returncode == 0 and not process.stderr, \
        f"babeltrace2 {directory}: status {process.returncode}: {process.stderr}"
    for line in process.stdout.splitlines(keepends=True):
        yield parse(line)
