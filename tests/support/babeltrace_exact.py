"""What babeltrace2 reads in a trace, in a form that can be compared with `plumb view --json`.

babeltrace2 prints text for people; this parses it back: one Event for each line, its fields as Python values.
Arrays print as `[ [0] = 1, [1] = 2 ]`, enumerations as `( "label" : container = 1 )`.
"""

import re
import subprocess


class Event:
    def __init__(self, cycles, name, cpu, scopes):
        self.cycles = cycles  # of the trace's clock
        self.name = name
        self.cpu = cpu
        self.scopes = scopes  # contexts, then the fields: each a dict

    @property
    def fields(self):
        return self.scopes[-1]


_TOKEN = re.compile(r'''\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>-?0x[0-9A-Fa-f]+|-?(?:inf|nan|\d[\d.e+-]*))
  | (?P<word><unknown>|[A-Za-z_][\w]*)
  | (?P<sign>[{}\[\](),:=]))''', re.VERBOSE)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


def _unquote(text):
    def character(match):
        escaped = match.group(1)
        return chr(int(escaped[1:], 16)) if len(escaped) == 3 else _ESCAPES.get(escaped, escaped)
    return re.sub(r"\\(x[0-9A-Fa-f]{2}|.)", character, text[1:-1])


class _Parser:
    def __init__(self, text):
        self.tokens = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise ValueError(f"cannot read {text[at:at + 60]!r}")
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        self.at = 0

    def peek(self):
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def take(self, wanted=None):
        kind, text = self.tokens[self.at]
        if wanted is not None and text != wanted:
            raise ValueError(f"{text!r} where {wanted!r} should be")
        self.at += 1
        return kind, text

    def scopes(self):
        scopes = [self.struct()]
        while self.peek() == ",":
            self.take()
            scopes.append(self.struct())
        return scopes

    def struct(self):
        self.take("{")
        fields = {}
        while self.peek() != "}":
            name = self.take()[1]
            self.take("=")
            fields[name] = self.value()
            if self.peek() == ",":
                self.take()
        self.take("}")
        return fields

    def array(self):
        self.take("[")
        elements = []
        while self.peek() != "]":
            self.take("[")
            self.take()
            self.take("]")
            self.take("=")
            elements.append(self.value())
            if self.peek() == ",":
                self.take()
        self.take("]")
        return elements

    def label(self):
        self.take("(")
        kind, text = self.take()
        label = _unquote(text) if kind == "string" else None
        while self.peek() != ":":  # more labels of overlapping ranges
            self.take()
        self.take(":")
        self.take("container")
        self.take("=")
        value = self.value()
        self.take(")")
        return {"value": value, "label": label}

    def value(self):
        if self.peek() == "{":
            return self.struct()
        if self.peek() == "[":
            return self.array()
        if self.peek() == "(":
            return self.label()
        kind, text = self.take()
        if kind == "string":
            return _unquote(text)
        if "0x" in text:
            return int(text, 16)
        try:
            return int(text)
        except ValueError:
            return float(text)


_LINE = re.compile(r"\[(?P<cycles>\d+)\] (?:\(\S+\) )?(?:\S+ )??(?P<name>\S+:\S+): (?P<rest>\{.*)$")


def read(path, without_statedump=True):
    """The events of a trace, in babeltrace2's order; fails if babeltrace2 has anything to say about it."""
    done = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", str(path)], capture_output=True, text=True,
                          errors="surrogateescape", check=False)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"babeltrace2 {path}: status {done.returncode}, says: {done.stderr}")
    events = []
    for line in done.stdout.split("\n"):
        if not line:
            continue
        match = _LINE.match(line)
        if not match:
            raise AssertionError(f"unexpected line of babeltrace2: {line!r}")
        if without_statedump and match["name"].startswith("plumb_statedump:"):
            continue
        scopes = _Parser(match["rest"]).scopes()
        cpu = scopes.pop(0).get("cpu_id") if "cpu_id" in scopes[0] else None
        events.append(Event(int(match["cycles"]), match["name"], cpu, scopes))
    return events
