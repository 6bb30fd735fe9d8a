"""Derives the two messages of a call from its parameters.

Request: everything that goes in, plus the ids of new handles (the client mints them) and, for nullable pointers, whether
the caller passed one. Reply: everything that comes out, plus the handles the server answers with.
"""

from model import Field


def presence(param):
    """The flag of the request that says whether the caller passed a pointer, or None where the value itself says it."""
    return f"has_{param.name}" if param.nullable and param.by_address and not param.new else None


def _in_field(param):
    """What of this parameter's value travels to the server."""
    if param.handle:
        form = "list_handle" if param.is_list else "handle"
        return Field(form, param.name, kind=param.handle, length_field=param.count if param.is_list else None,
                     optional=bool(presence(param)))
    if param.cstr:
        return Field("string", param.name)
    if param.bytes:
        return Field("bytes", param.name, length_field=param.bytes, optional=bool(presence(param)))
    if param.is_list:
        return Field("list_pod", param.name, c_type=param.element, length_field=param.count,
                     optional=bool(presence(param)))
    if param.by_address:
        return Field("pod", param.name, c_type=param.element)
    # An address the driver takes as a number (user data, a host pointer to look up) travels as one.
    return Field("pod", param.name, c_type="uint64_t" if param.is_pointer else param.c_type)


def _out_field(param):
    """What of this parameter's value travels back. Lengths are checked by the client against its own capacity."""
    if param.handle:
        return Field("list_handle" if param.is_list else "handle", param.name, kind=param.handle)
    if param.text:
        return Field("string", param.name)
    if param.bytes:
        return Field("bytes", param.name)
    if param.is_list:
        return Field("list_pod", param.name, c_type=param.element)
    return Field("pod", param.name, c_type=param.element)


def derive(call):
    """Fills call.request and call.reply."""
    if not call.has_message:
        return
    request, reply = [], []
    for param in call.params:
        if param.ignored:
            continue
        if flag := presence(param):
            request.append(Field("pod", flag, c_type="bool"))
        if param.direction in ("in", "inout") or param.new:
            request.append(_in_field(param))
        if param.direction in ("out", "inout") and not param.new:
            reply.append(_out_field(param))
    call.request = request if call.request_override is None else call.request_override
    call.reply = reply if call.reply_override is None else call.reply_override
