"""Rows of figures as a table for a terminal, or as Markdown.

A row: question, figures {"median", "p5", "p95", "cold", "ratio", "unit"} (each may be missing), remark.
"""

COLUMNS = (("what", "question"), ("median", "median"), ("p5", "p5"), ("p95", "p95"), ("first lap", "cold"),
           ("x clock", "ratio"), ("", "remark"))


def show(value, unit):
    if value is None:
        return ""
    if unit == "events/s":
        return f"{value:,.0f}/s"
    return f"{value:.2f} {unit}" if unit == "ns" else f"{value:.0f} {unit}"


def cells(row):
    unit = row.get("unit", "ns")
    return [row["question"]] + [show(row.get(key), unit) for key in ("median", "p5", "p95", "cold")] + [
        f"{row['ratio']:.2f}" if row.get("ratio") is not None else "", row.get("remark", "")]


def plain(groups):
    lines = []
    rows = [cells(row) for _, group in groups for row in group]
    heads = [head for head, _ in COLUMNS]
    widths = [max(len(line[i]) for line in rows + [heads]) for i in range(len(heads))]

    def line(values):
        aligned = [value.ljust(width) if i in (0, len(values) - 1) else value.rjust(width)
                   for i, (value, width) in enumerate(zip(values, widths))]
        return "  ".join(aligned).rstrip()

    lines.append(line(heads))
    for title, group in groups:
        lines += ["", title]
        lines += [line(cells(row)) for row in group]
    return "\n".join(lines)


def markdown(groups):
    lines = []
    for title, group in groups:
        lines += [f"**{title}**", "", "| " + " | ".join(head or "remark" for head, _ in COLUMNS) + " |",
                  "|---|" + "---:|" * (len(COLUMNS) - 2) + "---|"]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in group]
        lines.append("")
    return "\n".join(lines)
