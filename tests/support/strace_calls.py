"""Compares system calls as strace tells them with those of a trace, call by call of each thread, recorded together."""
import collections
import re

# Strings in hexadecimal: so nothing in them can be taken for anything else. File names are always whole.
STRACE = ["strace", "-f", "-xx", "-s", "400"]

# What strace does itself, with the programs that it follows, is left out: but its child begins the workload.
VIEW = ["-e", "syscall_*", "--where", 'comm != "strace" || event == "syscall_entry_execve"']

# tracefs names a call by the function that it is.
STRACE_NAMES = {"newstat": "stat", "newfstat": "fstat", "newlstat": "lstat", "newuname": "uname", "umount": "umount2",
                "sendfile64": "sendfile", "sysctl": "_sysctl"}
# Its names for these say what the number means beside another argument.
NAMED_BY_STRACE_ALONE = {("fcntl", "arg"), ("prctl", "arg2"), ("prctl", "arg3")}
NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
NAMES = re.compile(r"\w+(?:\|\w+)*")
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
ELEMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"(\.\.\.)?|(\.\.\.(?: /\* 0x[0-9a-f]+ \*/)?)|(\(not read\)|0x[0-9a-f]+)', re.S)
ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.S)


def numbers(text):
    return int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text, 0)


def split(arguments):
    """At the commas that are in no list or structure. Strings are empty, comments left out."""
    arguments = re.sub(r" */\*.*?\*/", "", STRING.sub('""', arguments))
    parts, depth, begin = [], 0, 0
    for mark in re.finditer(r"[][{}(),]", arguments):
        depth += (mark[0] in "[{(") - (mark[0] in "]})")
        if mark[0] == "," and depth == 0:
            parts.append(arguments[begin:mark.start()].strip())
            begin = mark.end()
    return [*parts, arguments[begin:].strip()]


def split_with_strings(arguments):
    """The same, as strace shows them."""
    parts, depth, quoted = [""], 0, False
    for char in arguments:
        quoted ^= char == '"'
        if not quoted:
            depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def elements(text):
    """Of a list of strings, as strace and the trace write it: ([(bytes, whether they were cut)], whether there were more),
    and None in place of those that were not read. The text itself if it is none."""
    def unescaped(match):
        letters = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
        return bytes.fromhex(match[1][1:].decode()) if len(match[1]) == 3 else letters.get(match[1], match[1])
    if not text.startswith("["):
        return "(null)" if text == "NULL" else "(not read)" if text.startswith("0x") else text
    found = ELEMENT.findall(text.encode())
    has_more = bool(found) and bool(found[-1][2])
    return [None if unread else (ESCAPE.sub(unescaped, string), bool(cut))
            for string, cut, _, unread in found[:len(found) - has_more]], has_more


def is_list_of(theirs, ours):
    """Whether it is theirs, up to where either of them was cut."""
    if isinstance(theirs, str) or isinstance(ours, str):
        return theirs == ours
    (they, they_have_more), (we, we_have_more) = theirs, ours
    while we and they_have_more and we[-1] is None:  # strace does not name the one that it could not read
        we.pop()
    for element, their_element in zip(we, they):
        if element == their_element:
            continue
        if not element or not their_element:
            return False
        (we_have, we_cut), (they_have, they_cut) = element, their_element
        if not (we_cut and they_have.startswith(we_have)) and not (they_cut and we_have.startswith(they_have)):
            return False
    return len(we) <= len(they) if we_have_more else len(we) == len(they) and not they_have_more


class Call:
    """As strace tells it."""
    def __init__(self, name, rest):
        self.name = name
        match = re.fullmatch(r"(.*)\)\s+= (\?|-?\w+)(?: (E[A-Z0-9]+))?( .*)?", rest, re.S)
        self.arguments, self.value, self.error, _ = match.groups()
        self.strings = [bytes.fromhex(found.replace("\\x", "")) for found in STRING.findall(self.arguments)]
        self.parts = split(self.arguments) if self.arguments else []


def calls_of_strace(lines):
    """{thread: [Call]}"""
    calls, begun = collections.defaultdict(list), {}
    for line in lines:
        thread, rest = line.rstrip("\n").split(None, 1)
        thread = int(thread)
        if rest.startswith(("+++", "---")):
            continue
        resumed = re.fullmatch(r"<\.\.\. \w+ resumed>(.*)", rest)
        name, rest = (begun[thread][0], begun[thread][1] + resumed[1]) if resumed else rest.split("(", 1)
        if rest.endswith("<unfinished ...>"):
            begun[thread] = name, rest.removesuffix("<unfinished ...>").rstrip()
        elif rest.endswith("<unfinished ...>) = ?"):
            calls[thread].append(Call(name, rest.replace("<unfinished ...>", "")))
        else:
            calls[thread].append(Call(name, rest))
    return calls


def calls_of_trace(events):
    """{thread: [[name, fields at entry, fields at exit]]}"""
    calls, begun = collections.defaultdict(list), {}
    for event in events:
        _, kind, name = event["event"].split("_", 2)
        thread = event["tid"]
        if kind == "entry":
            begun[thread] = [STRACE_NAMES.get(name, name), event["fields"], None]
            calls[thread].append(begun[thread])
        elif kind == "exit" and thread in begun:
            begun[thread][2] = event["fields"]
        elif kind == "late" and thread in begun:
            begun[thread][1][event["fields"]["argument"]] = event["fields"]["text"]
    return calls


def as_our_names(name, theirs):
    if name == "futex":
        theirs = re.sub(r"(\w+)_PRIVATE\b", r"\1|FUTEX_PRIVATE_FLAG", theirs)
    if name == "statx":
        theirs = theirs.replace("AT_STATX_SYNC_AS_STAT|", "")
    return set(theirs.replace("O_LARGEFILE", "0x8000").split("|"))


def argument_differs(name, field, theirs, number, names):
    """`theirs`: what strace shows in the place of the field whose number, and whose names if it has any, we have."""
    if NUMBER.fullmatch(theirs):
        # A negative int may be in a field of more bits, or of a type without a sign.
        expected = numbers(theirs)
        return (expected - number) % (2**32 if expected < 0 else 2**64) != 0
    if theirs == "NULL":
        return number != 0
    if not NAMES.fullmatch(theirs):
        return False  # what a pointer leads to
    if names is None:
        return (name, field) not in NAMED_BY_STRACE_ALONE
    return as_our_names(name, theirs) != set(names.split("|"))


def different(call, name, begin, end):
    """What strace tells otherwise: (what, by strace, in the trace)."""
    texts = [text for field, text in begin.items()
             if isinstance(text, str) and text != "(null)" and field != "argv" and not field.endswith("_text")]
    theirs = [string.decode(errors="replace") for string in call.strings[:len(texts)]]
    if theirs != texts:
        yield "strings", theirs, texts
    plain = [field for field in begin if not field.endswith("_text")]
    if isinstance(begin.get("argv"), str) and not is_list_of(elements(split_with_strings(call.arguments)[plain.index("argv")]),
                                                             elements(begin["argv"])):
        yield "argv", call.arguments, begin["argv"]
    if name == "clone":  # strace has its arguments in the order in which the C library has them
        theirs = re.search(r"\bflags=([^,]+)", call.arguments)[1]
        if as_our_names(name, theirs) != set(begin["clone_flags_text"].split("|")):
            yield "clone_flags", theirs, begin["clone_flags_text"]
    elif name != "rt_sigreturn":  # strace shows what the kernel finds on the stack
        if name == "futex":
            plain = plain[:3]  # the others by what the operation makes of them
        for field, theirs in zip(plain, call.parts):
            ours = begin[field]
            if isinstance(ours, int) and argument_differs(name, field, theirs, ours, begin.get(field + "_text")):
                yield field, theirs, begin.get(field + "_text", ours)
    if name in ("exit_group", "exit", "rt_sigreturn"):
        return
    if end is None:
        yield "end", call.value, None
    elif call.error is not None and call.error != end.get("ret_text"):
        yield "error", call.error, end
    elif call.error is None and numbers(call.value) % 2**64 != end["ret"] % 2**64:
        yield "value", call.value, end


def compare(lines, events):
    """What differs, and how many of which calls and names were compared."""
    ours, differences, compared = calls_of_trace(events), [], collections.Counter()
    theirs = calls_of_strace(lines)
    for thread, found in ours.items():
        names = [name for name, _, _ in found]
        if thread not in theirs and names != ["execve"]:  # that is strace
            differences.append((thread, [], names))
    for thread, calls in theirs.items():
        found = ours[thread]
        if [call.name for call in calls] != [name for name, _, _ in found]:
            differences.append((thread, [call.name for call in calls], [name for name, _, _ in found]))
            continue
        for call, (name, begin, end) in zip(calls, found):
            differences += [(name, call.arguments, begin, *each) for each in different(call, name, begin, end)]
            compared[name] += 1
            compared.update((name, field.removesuffix("_text")) for field in begin if field.endswith("_text"))
            compared.update([("argv", name)] if isinstance(begin.get("argv"), str) else [])
            compared.update(("strings", name) for field, text in begin.items()
                            if isinstance(text, str) and not field.endswith("_text"))
    return differences, compared
