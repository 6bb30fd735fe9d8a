"""messages/<domain>.{h,cc}: the request and reply structs with Encode, Decode and ToString."""

import itertools

from output import block, in_namespace, indent, spec_file

_SUFFIX = {"pod": "Pod", "handle": "Handle", "bytes": "Bytes", "string": "String", "list_pod": "Array",
           "list_handle": "Array", "strings": "Strings"}


def messages(calls):
    """(struct name, call, fields) of every message of the domain."""
    for call in calls:
        if call.has_message:
            yield f"{call.name}Request", call, call.request
            yield f"{call.name}Reply", call, call.reply


def _length_checks(fields):
    """The lengths that a request states twice must agree, so that handlers need not look again."""
    by_name = {field.name: field for field in fields}
    for field in fields:
        if field.length_field is None:
            continue
        length = field.length_field if field.length_field.isdigit() else f"this->{field.length_field}"
        if not field.length_field.isdigit() and by_name.get(field.length_field) is None:
            continue
        condition = f"!LengthIs(this->{field.name}.size(), {length})"
        if field.optional:
            condition = f"(this->has_{field.name} ? {condition} : !this->{field.name}.empty())"
        yield f"if ({condition}) in.Fail();"


def _streams(fields):
    """The request of work that may touch any memory says which streams it is for (client-stub/device_work)."""
    stream, = (field for field in fields if field.kind and field.kind.name == "stream")
    value = f"this->{stream.name}" if stream.form == "list_handle" else f"{{&this->{stream.name}, 1}}"
    return f"std::span<const HandleId> Streams() const {{ return {value}; }}"


def _struct(name, call, fields):
    members = []
    work = call.touches and name.endswith("Request")
    for field in fields:
        initial = "{}" if field.form in ("pod", "handle") else ""
        members.append(f"{field.cpp_type} {field.name}{initial};")
    return [
        *block(f"struct {name}", [
            f"static constexpr uint32_t kId = {call.id:#06x};",
            *([f"static constexpr Touches kTouches = Touches::k{call.touches.capitalize()};"] if work else []),
            *members,
            "",
            *([_streams(fields)] if work and call.touches != "ranges" else []),
            "void Encode(Encoder& out) const;",
            "// Bytes and text point into the decoded record. False: the record is not such a message.",
            "bool Decode(Decoder& in);",
            "std::string ToString() const;",
        ], "};"), ""]


def _header(domain, calls):
    lines = [
        f"// Messages of the domain `{domain}`: plain structs, used by one thread.",
        "#pragma once", "", "#include <cuda.h>", "", "#include <cstdint>", "#include <span>", "#include <string>",
        "#include <string_view>", "#include <vector>", "", '#include "protocol/runtime/fields.h"',
        *(['#include "protocol/runtime/touches.h"'] if any(call.touches for call in calls) else []), ""]
    body = []
    for name, call, fields in messages(calls):
        body += _struct(name, call, fields)
    return lines + in_namespace(body)


def _steps(verb, stream, address_of, fields):
    """One statement for each field, but neighbours of fixed size share one: their place is looked for once."""
    def fixed(field):
        # What is read into a bool is checked.
        return field.form in ("pod", "handle") and not (verb == "Get" and field.cpp_type == "bool")
    for together, group in itertools.groupby(fields, fixed):
        group = list(group)
        names = [f"{address_of}this->{field.name}" for field in group]
        if together and len(group) > 1:
            yield f"{verb}Fixed({stream}, {', '.join(names)});"
        else:
            yield from (f"{verb}{_SUFFIX[field.form]}({stream}, {name});" for field, name in zip(group, names))


def _source(domain, calls):
    body = []
    for name, _, fields in messages(calls):
        body += block(f"void {name}::Encode(Encoder& out) const", list(_steps("Put", "out", "", fields)))
        body += block(f"bool {name}::Decode(Decoder& in)",
                      list(_steps("Get", "in", "&", fields)) + list(_length_checks(fields)) + ["return in.ok();"])
        body += block(f"std::string {name}::ToString() const",
                      [f'FieldText text("{name}");'] +
                      [f'text.Add{_SUFFIX[f.form]}("{f.name}", this->{f.name});' for f in fields] + ["return text.Take();"])
        body.append("")
    return ["", f'#include "generated/messages/{domain}.h"', "", '#include "protocol/runtime/field_text.h"', "",
            *in_namespace(body)]


def emit(spec, out):
    for domain, calls in spec.domains.items():
        out.write(f"messages/{domain}.h", spec_file(domain), _header(domain, calls))
        out.write(f"messages/{domain}.cc", spec_file(domain), _source(domain, calls))
