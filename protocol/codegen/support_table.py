"""The table of supported functions in the README, between two markers."""

from model import SpecError
from output import Output

_BEGIN = "<!-- support-table:begin -->"
_END = "<!-- support-table:end -->"


def support_table(spec):
    rows = ["| Domain | Functions | Forwarded | Answered by the client | Not supported |",
            "| --- | ---: | ---: | ---: | ---: |"]
    total = [0, 0, 0, 0]
    for domain, calls in spec.domains.items():
        resolved = [(spec.find(c.alias) if c.alias else c) for c in calls if not c.internal]
        counts = [len(resolved), sum(c.mode in ("async", "sync") for c in resolved),
                  sum(c.mode in ("local", "cached") for c in resolved), sum(c.mode == "unsupported" for c in resolved)]
        if counts[0]:
            rows.append(f"| {domain.replace('_', ' ')} | " + " | ".join(map(str, counts)) + " |")
            total = [a + b for a, b in zip(total, counts)]
    rows.append("| **all** | " + " | ".join(f"**{n}**" for n in total) + " |")
    reasons = {}
    for call in spec.exports:
        target = spec.find(call.alias) if call.alias else call
        if target.mode == "unsupported":
            reasons.setdefault(target.reason, []).append(call.name)
    lines = rows + [""]
    if reasons:
        lines += ["Functions that return `CUDA_ERROR_NOT_SUPPORTED`, and why:", ""]
        for reason, names in sorted(reasons.items()):
            lines.append(f"- {reason}: {', '.join(f'`{name}`' for name in names)}")
    return "\n".join(lines)


def with_table(spec, text, name):
    """`text` of a README with the block between the markers replaced."""
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise SpecError(f"{name}: the markers {_BEGIN} and {_END} are missing")
    return text[: begin + len(_BEGIN)] + "\n" + support_table(spec) + "\n" + text[end:]


def update(spec, path):
    Output.write_text(path, with_table(spec, path.read_text(encoding="utf-8"), path.name))


def is_current(spec, path):
    text = path.read_text(encoding="utf-8")
    return with_table(spec, text, path.name) == text
