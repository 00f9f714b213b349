"""Where a source file can be changed in one place so that it probably does something else, for tools/mutate.

The text is looked at as clang-format leaves it: a binary operator has a space on both sides, a template's brackets and a
pointer's star have not. Comments, texts and preprocessor lines are left alone, and so is what only the compiler
checks.
"""
import collections
import re

Change = collections.namedtuple("Change", "path offset length replacement kind")

# What each operator becomes; the first that is listed is no better than the others.
OPERATORS = {
    "==": ["!="], "!=": ["=="],
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
    "&&": ["||"], "||": ["&&"],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"],
    "&": ["|"], "|": ["&"], "^": ["|"], "<<": [">>"], ">>": ["<<"],
    "+=": ["-="], "-=": ["+="], "|=": ["&="], "&=": ["|="], "<<=": [">>="], ">>=": ["<<="],
}
BINARY = re.compile(r"(?<=[\w)\]'\"}] )(" +
                    "|".join(re.escape(o) for o in sorted(OPERATORS, key=len, reverse=True)) + r")(?= |\n)")
STEP = re.compile(r"\+\+|--")
NUMBER = re.compile(r"(?<![\w.'])(0x[0-9a-fA-F']+|\d[\d']*)([uUlL]*)(?![\w.'])")
TRUTH = re.compile(r"\b(true|false)\b")
NOT = re.compile(r"(?<=[( =])!(?=[\w(:])")
CONDITION = re.compile(r"\b(if|while) \(")
CALL = re.compile(r"(?:(?<=[;{}:)])|(?<=else)|(?<=\*/))\s*\n[ ]*((?:[\w:]+(?:\.|->|::))*~?\w+\([^;{}]*\);)(?=\s*\n)")
NO_CALL = re.compile(r"(?:return|static_assert|PLUMB_STATIC_ASSERT|PLUMB_ABI_\w+|case|sizeof|if|while|for|switch)\b")
# Lines that only the compiler looks at.
LEFT_ALONE = re.compile(r"static_assert|STATIC_ASSERT|PLUMB_ABI_|^\s*template\b|^\s*using |\boperator|alignas|__attribute__|= 0;$|= default|"
                        r"= delete|\[\[(?!maybe_unused)", re.M)
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])\'|'
                    r"^[ \t]*#(?:\\\n|/\*.*?\*/|[^\n])*", re.S | re.M)


def _blank(match):
    """Same length, same lines; what was a text stays something that an operator can stand beside."""
    text = match.group()
    inside = re.sub(r"[^\n]", " ", text)
    return text[0] + inside[1:-1] + text[-1] if text[0] in "\"'" else inside


def _closing(text, opening):
    depth = 0
    for at in range(opening, len(text)):
        if text[at] == "(":
            depth += 1
        elif text[at] == ")":
            depth -= 1
            if depth == 0:
                return at
    return None


def _of_number(match):
    digits, suffix = match.groups()
    value = int(digits.replace("'", ""), 0) if not re.match(r"0\d", digits) else int(digits, 8)
    return [f"{other}{suffix}" for other in {value + 1, value - 1 if value > 0 else 2}]


def changes_of(path, source):
    """All changes of one file, in the order of the text."""
    text = HIDDEN.sub(_blank, source)
    found = []

    def add(start, end, replacement, kind):
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        line = text[line_start:line_end if line_end >= 0 else len(text)]
        if kind != "call" and LEFT_ALONE.search(line):
            return
        found.append(Change(path, start, end - start, replacement, kind))

    for match in BINARY.finditer(text):
        for other in OPERATORS[match.group(1)]:
            add(match.start(1), match.end(1), other, "operator")
    for match in STEP.finditer(text):
        add(*match.span(), "--" if match.group() == "++" else "++", "operator")
    for match in NOT.finditer(text):
        add(*match.span(), "", "operator")
    for match in NUMBER.finditer(text):
        for other in _of_number(match):
            add(*match.span(), other, "constant")
    for match in TRUTH.finditer(text):
        add(*match.span(), "false" if match.group() == "true" else "true", "constant")
    for match in CONDITION.finditer(text):
        closing = _closing(text, match.end() - 1)
        if closing is None or text[match.start() - 6:match.start()].endswith("#"):
            continue
        start = match.end()
        semicolon = text.rfind(";", start, closing)
        if semicolon >= 0:
            start = semicolon + 2
        elif re.search(r"[^=!<>]=[^=]", text[start:closing]):
            continue  # a declaration
        add(start, closing, f"!({source[start:closing]})", "condition")
    for match in CALL.finditer(text):
        if not NO_CALL.match(match.group(1)):
            add(*match.span(1), ";", "call")
    return sorted(found, key=lambda change: (change.offset, change.replacement))


def apply(source, change):
    return source[:change.offset] + change.replacement + source[change.offset + change.length:]


def statement_lines(source, change):
    """The numbers of the lines of the statement that a change is in, or of the part of it that has no statement inside."""
    text = HIDDEN.sub(_blank, source)
    begin = max(text.rfind(end, 0, change.offset) for end in ";{}") + 1
    begin += len(text[begin:]) - len(text[begin:].lstrip())
    after = re.compile(r"[;{}]").search(text, change.offset + max(change.length - 1, 0))
    end = after.start() if after else len(text)
    return range(text.count("\n", 0, min(begin, change.offset)) + 1, text.count("\n", 0, end) + 2)
