"""Reads the TOML files of protocol/spec into the model. Whatever it does not understand is an error."""

import pathlib
import re
import tomllib

from model import (CAPTURES, CONTEXTS, ERRORS, MODES, ROUTES, WORKS, Call, Field, GraphicsName, Kind, Location, Param, Spec,
                   SpecError)

_CALL_FIELDS = {
    "id": int, "since": int, "per_thread": str, "per_thread_since": int, "mode": str, "reason": str, "alias": str,
    "params": list, "client": str, "server": str, "request": list, "reply": list, "context": str, "capture": str,
    "blocking": bool, "aside": bool, "internal": bool, "work": str, "errors": str,
    "route": str,
}
_KIND_FIELDS = {"type": str, "error": int, "value": int}

_FLAGS = ("cstr", "nullable", "ignored", "device_only")
_WITH_KIND = ("use", "free", "new", "known")
_WITH_LENGTH = ("count", "filled", "bytes", "text")
_ANNOTATION = rf"(?:{'|'.join(_FLAGS)}|(?:{'|'.join(_WITH_KIND + _WITH_LENGTH)}|null)\(\s*\w+\s*\))"
_PARAM = re.compile(rf"(in|out|inout)\s+(\S.*?)\s*\b(\w+)((?:\s+{_ANNOTATION})*)")
# One identifier, or the words of a built-in type; const in front; stars (each may be const) behind.
_C_TYPE = re.compile(r"(const )?((unsigned|signed|long|short|int|char|float|double)( (long|short|int|char))*|[A-Za-z_]\w*)"
                     r"\s*(\*( const)?)*")
_SCALARS = {"u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t",
            "i64": "int64_t", "f32": "float", "f64": "double", "bool": "bool"}


class _File:
    """A TOML file with the line numbers that tomllib does not report."""

    def __init__(self, path, shown_as):
        self.shown_as = shown_as
        text = path.read_text(encoding="utf-8")
        try:
            self.tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"{shown_as}: {error}") from None
        self._lines = text.splitlines()
        self._starts = {}
        for number, line in enumerate(self._lines, 1):
            if header := re.fullmatch(r"\s*\[([^\[\]]+)\]\s*(#.*)?", line):
                self._starts[header[1].strip()] = number

    def where(self, table, snippet=None):
        """The place of a table's header, or of the first line in it that contains `snippet`."""
        start = self._starts.get(table, 1)
        if snippet is not None:
            for number in range(start, len(self._lines)):
                line = self._lines[number]
                if re.match(r"\s*\[[A-Za-z_]\w*\]", line):
                    break
                if snippet in line:
                    return Location(self.shown_as, number + 1, table)
        return Location(self.shown_as, start, table)


def _check_fields(file, table, row, allowed):
    if not isinstance(row, dict):
        raise file.where(table, table).error(f"`{table}` stands outside of a table")
    for name, value in row.items():
        where = file.where(table, name)
        if name not in allowed:
            raise where.error(f"unknown field `{name}`; known are {', '.join(sorted(allowed))}")
        # bool is an int to Python, not to us.
        if not isinstance(value, allowed[name]) or (isinstance(value, bool) and allowed[name] is not bool):
            raise where.error(f"`{name}` must be of type {allowed[name].__name__}")


def _choice(file, table, row, name, allowed, default):
    value = row.get(name, default)
    if value not in allowed:
        raise file.where(table, name).error(f"{name} = \"{value}\" is none of {', '.join(allowed)}")
    return value


def _kind(kinds, name, where):
    if name not in kinds:
        raise where.error(f"`{name}` is no kind of handle in types.toml")
    return kinds[name]


def parse_param(line, kinds, where):
    """`in const CUevent* list use(event) count(n)` -> Param."""
    match = _PARAM.fullmatch(line.strip())
    if not match:
        raise where.error(f"parameter \"{line}\" does not parse as: direction type name annotation...")
    direction, c_type, name, annotations = match.groups()
    c_type = re.sub(r"\s+\*", "*", re.sub(r"\s+", " ", c_type.strip()))
    if not _C_TYPE.fullmatch(c_type):
        raise where.error(f"parameter \"{line}\": \"{c_type}\" is no C type (or an annotation is misspelt)")
    values = {}
    for word in annotations.split(")"):
        for part in re.findall(r"\w+\s*\(\s*\w+|\w+", word):
            key, _, argument = (piece.strip() for piece in part.partition("("))
            if key in values:
                raise where.error(f"parameter `{name}` has `{key}` twice")
            if key in _WITH_KIND:
                values[key] = _kind(kinds, argument, where)
            elif key == "null":
                if not argument.isdigit() or int(argument) == 0:
                    raise where.error(f"parameter `{name}`: null({argument}) is not the number of an error")
                values[key] = int(argument)
            else:
                values[key] = argument if key in _WITH_LENGTH else True
    return Param(where=where, direction=direction, c_type=c_type, name=name, **values)


def parse_field(line, kinds, where):
    """`list(handle(kernel)) kernels` -> Field."""
    match = re.fullmatch(r"\s*(\S+)\s+([A-Za-z_]\w*)\s*", line)
    if not match:
        raise where.error(f"message field \"{line}\" does not parse as: form name")
    form, name = match.groups()

    def simple(text):
        """Form and C type or kind of an element: a number, pod(T), handle(kind)."""
        if text in _SCALARS:
            return {"form": "pod", "c_type": _SCALARS[text]}
        if inner := re.fullmatch(r"pod\((\w+)\)", text):
            return {"form": "pod", "c_type": inner[1]}
        if inner := re.fullmatch(r"handle\((\w+)\)", text):
            return {"form": "handle", "kind": _kind(kinds, inner[1], where)}
        return None

    if form in ("bytes", "string", "strings"):
        return Field(form=form, name=name)
    if inner := re.fullmatch(r"list\((.+)\)", form):
        if element := simple(inner[1]):
            return Field(name=name, **(element | {"form": "list_" + element["form"]}))
    elif single := simple(form):
        return Field(name=name, **single)
    raise where.error(f"message field \"{line}\": unknown form `{form}`")


def _parse_call(file, domain, table, row, kinds):
    _check_fields(file, table, row, _CALL_FIELDS)
    where = file.where(table)
    for name in ("id", "mode"):
        if name not in row and not (name == "mode" and "alias" in row):
            raise where.error(f"`{name}` is missing")
    for side in ("client", "server"):
        if row.get(side, "custom") != "custom":
            raise file.where(table, side).error(f"{side} = \"{row[side]}\": the only value is \"custom\"")

    def lines(name, parse):
        if name not in row:
            return None
        result = []
        for line in row[name]:
            if not isinstance(line, str):
                raise file.where(table, name).error(f"`{name}` must be a list of strings")
            place = file.where(table, f'"{line}"')
            result.append(parse(line, kinds, place))
            if [other.name for other in result].count(result[-1].name) > 1:
                raise place.error(f"the name `{result[-1].name}` occurs twice in `{name}`")
        return result

    work, work_amount = "", ""
    if "work" in row:
        match = re.fullmatch(r"(\w+)(?:\((\w+)\))?", row["work"])
        if not match or match[1] not in WORKS:
            raise file.where(table, "work").error(f"work = \"{row['work']}\" is none of {', '.join(WORKS)}")
        work, work_amount = match[1], match[2] or ""
    mode = _choice(file, table, row, "mode", MODES, "local" if "alias" in row else None)
    return Call(
        where=where, name=table, domain=domain, id=row["id"], mode=mode,
        params=lines("params", parse_param) or [],
        since=row.get("since", 0),
        per_thread=_choice(file, table, row, "per_thread", ("", "_ptds", "_ptsz"), ""),
        per_thread_since=row.get("per_thread_since", row.get("since", 0)),
        reason=row.get("reason", ""), alias=row.get("alias", ""),
        client_custom="client" in row or (mode in ("local", "cached") and "alias" not in row), server_custom="server" in row,
        context=_choice(file, table, row, "context", CONTEXTS, "required"),
        capture=_choice(file, table, row, "capture", CAPTURES, "legal"),
        errors=_choice(file, table, row, "errors", ERRORS, "deferred"),
        blocking=row.get("blocking", False), aside=row.get("aside", False), internal=row.get("internal", False),
        work=work, work_amount=work_amount, route=_choice(file, table, row, "route", ROUTES, "named"),
        request_override=lines("request", parse_field), reply_override=lines("reply", parse_field))


def parse_types(directory):
    """The kinds of handles, and the C types that never travel as plain bytes."""
    file = _File(directory / "types.toml", "types.toml")
    kinds = {}
    not_plain = file.tables.pop("not_plain", [])
    if not isinstance(not_plain, list) or not all(isinstance(name, str) for name in not_plain):
        raise SpecError("types.toml: `not_plain` must be a list of type names")
    for table, row in file.tables.items():
        _check_fields(file, table, row, _KIND_FIELDS)
        where = file.where(table)
        for name in _KIND_FIELDS:
            if name not in row:
                raise where.error(f"`{name}` is missing")
        for other in kinds.values():
            if other.value == row["value"] or other.c_type == row["type"]:
                raise where.error(f"has the value or the type of [{other.name}]")
        kinds[table] = Kind(name=table, c_type=row["type"], error=row["error"], value=row["value"])
    return kinds, frozenset(not_plain)


def parse_graphics(path):
    """The lines of graphics.names; none where there is no such file."""
    names = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0] == "#":
            continue
        if len(words) not in (3, 5) or not all(word.isdigit() for word in words[2::2]):
            raise SpecError(f"{path.name}:{number}: a line is NAME SUFFIX VERSION [SUFFIX VERSION]")
        suffix = "" if words[1] == "-" else words[1]
        per_thread = (words[3], int(words[4])) if len(words) == 5 else ("", 0)
        names.append(GraphicsName(words[0], suffix, int(words[2]), *per_thread))
    return tuple(sorted(names, key=lambda name: (name.base_name, name.since)))


def parse_spec(directory):
    """All of protocol/spec, or SpecError. The domains are the files but types.toml."""
    directory = pathlib.Path(directory)
    kinds, not_plain = parse_types(directory)
    domains = {}
    for path in sorted(directory.glob("*.toml")):
        if path.name == "types.toml":
            continue
        file = _File(path, path.name)
        domains[path.stem] = [_parse_call(file, path.stem, table, row, kinds) for table, row in file.tables.items()]
    return Spec(kinds=kinds, not_plain=not_plain, domains=domains, graphics=parse_graphics(directory / "graphics.names"))
