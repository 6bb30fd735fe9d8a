"""The forwarded API as the other modules of the generator see it: plain data, no parsing, no output."""

from dataclasses import dataclass, field

MODES = ("local", "cached", "async", "sync", "unsupported")
CONTEXTS = ("required", "none", "stream", "any", "uninitialized")
CAPTURES = ("legal", "unsafe", "query")
ERRORS = ("deferred", "own")
ROUTES = ("named", "none")


class SpecError(Exception):
    """A mistake in the spec. The message names file, table and line, ready to be printed."""


@dataclass(frozen=True)
class Location:
    file: str
    line: int
    table: str

    def error(self, text):
        return SpecError(f"{self.file}:{self.line}: [{self.table}] {text}")


@dataclass(frozen=True)
class Work:
    """What follows from a word of the column `work`."""

    gate: str  # what the server's gate asks for a record: an enumerator of GateKind (generated/server/dispatch.h)
    touches: str = ""  # the program's memory that the record may touch, which the client prepares for it (protocol/runtime/touches.h)
    has_amount: bool = False  # a parameter may say how many bytes


WORKS = {
    "launch": Work("launch", "anything"),
    "graph": Work("graph", "anything"),
    "upload": Work("graph"),
    "copy": Work("copy", "ranges", has_amount=True),
    "set": Work("set", "ranges"),
    "value": Work("order", "mirrors"),
    "memory": Work("memory", has_amount=True),
    "order": Work("order"),
    "none": Work("none"),
}


@dataclass(frozen=True)
class Kind:
    """A kind of handle (types.toml)."""

    name: str
    c_type: str
    error: int
    value: int

    @property
    def cpp(self):
        """The enumerator of HandleKind: graph_exec -> HandleKind::kGraphExec."""
        return "HandleKind::k" + "".join(word.capitalize() for word in self.name.split("_"))


@dataclass(frozen=True)
class Param:
    """One parameter of a prototype with its annotations."""

    where: Location
    direction: str  # in, out, inout
    c_type: str
    name: str
    use: Kind | None = None
    free: Kind | None = None
    new: Kind | None = None
    known: Kind | None = None
    count: str | None = None
    filled: str | None = None
    bytes: str | None = None
    text: str | None = None
    null: int = 0
    cstr: bool = False
    nullable: bool = False
    ignored: bool = False
    device_only: bool = False

    @property
    def is_pointer(self):
        return self.c_type.endswith("*")

    @property
    def pointee(self):
        """`const CUevent*` -> `const CUevent`; only for pointers."""
        return self.c_type[:-1].rstrip()

    @property
    def pointee_is_const(self):
        pointee = self.pointee
        return pointee.endswith(" const") or (pointee.startswith("const ") and "*" not in pointee)

    @property
    def element(self):
        """The pointee without its const: what an array of this parameter holds."""
        pointee = self.pointee
        if pointee.endswith(" const"):
            return pointee[: -len(" const")]
        if pointee.startswith("const ") and "*" not in pointee:
            return pointee[len("const "):]
        return pointee

    @property
    def handle(self):
        """The kind of handle behind this parameter, whatever its life."""
        return self.use or self.free or self.new or self.known

    @property
    def is_list(self):
        """An array with a length of its own; count(1) only says that an `in` pointer to writable memory is one element."""
        return self.count not in (None, "1")

    @property
    def by_address(self):
        """The driver reads or writes through this pointer. A plain `in void*` is a number to it."""
        return self.is_pointer and not (self.direction == "in" and self.c_type == "void*")


@dataclass(frozen=True)
class Field:
    """One field of a message."""

    form: str  # pod, handle, bytes, string, list_pod, list_handle, strings
    name: str
    c_type: str = ""
    kind: Kind | None = None
    # A list or byte string that belongs to a parameter has as many elements as this field says (None: free).
    length_field: str | None = None
    # ... unless the field `has_<name>` of the message is false.
    optional: bool = False

    @property
    def cpp_type(self):
        return {
            "pod": self.c_type,
            "handle": "HandleId",
            "bytes": "std::span<const std::byte>",
            "string": "std::string_view",
            "list_pod": f"Array<{self.c_type}>",
            "list_handle": "Array<HandleId>",
            "strings": "std::vector<std::string_view>",
        }[self.form]

    @property
    def layout(self):
        """As written in wire.lock."""
        words = {"pod": self.c_type, "handle": f"handle({self.kind.name if self.kind else ''})",
                 "list_pod": f"list({self.c_type})", "list_handle": f"list(handle({self.kind.name if self.kind else ''}))"}
        return f"{words.get(self.form, self.form)} {self.name}"


@dataclass
class Call:
    """One exported function, or (internal) a record of Tessera's own."""

    where: Location
    name: str
    domain: str
    id: int
    mode: str
    params: list[Param] = field(default_factory=list)
    since: int = 0
    per_thread: str = ""
    per_thread_since: int = 0
    reason: str = ""
    alias: str = ""
    client_custom: bool = False
    server_custom: bool = False
    context: str = "required"
    capture: str = "legal"
    errors: str = "deferred"
    blocking: bool = False
    aside: bool = False
    internal: bool = False
    work: str = ""  # not said: "none", in a row that names no stream
    work_amount: str = ""
    route: str = "named"
    # Written in the spec where they differ from the parameters; else None until fields.derive().
    request_override: list[Field] | None = None
    reply_override: list[Field] | None = None
    request: list[Field] = field(default_factory=list)
    reply: list[Field] = field(default_factory=list)

    @property
    def has_message(self):
        return not self.alias and self.mode in ("cached", "async", "sync")

    @property
    def streams(self):
        """What of the request is a stream, or several: its record may give them work."""
        said = self.params if self.request_override is None else self.request_override
        kinds = ((place, place.use if isinstance(place, Param) else place.kind) for place in said)
        return [place for place, kind in kinds if kind is not None and kind.name == "stream"]

    @property
    def names_stream(self):
        """So does the function itself, or its message."""
        return bool(self.streams) or any(p.use and p.use.name == "stream" for p in self.params)

    @property
    def gate(self):
        return WORKS[self.work or "none"].gate

    @property
    def may_wait(self):
        """Its record is work of the GPU, which waits for its turn; a copy only between devices."""
        return self.gate in ("launch", "graph", "set", "copy")

    @property
    def touches(self):
        return WORKS[self.work or "none"].touches

    @property
    def base_name(self):
        """The name cuGetProcAddress knows: cuMemAlloc_v2 -> cuMemAlloc."""
        head, separator, tail = self.name.rpartition("_v")
        return head if separator and tail.isdigit() else self.name

    @property
    def symbols(self):
        """The exported names: the plain one, and the per-thread-stream form where there is one."""
        if self.internal:
            return []
        return [self.name] + ([self.name + self.per_thread] if self.per_thread else [])

    def param(self, name):
        return next((p for p in self.params if p.name == name), None)

    @property
    def prototype(self):
        return ", ".join(f"{p.c_type} {p.name}" for p in self.params)

    @property
    def types(self):
        return ", ".join(p.c_type for p in self.params)


@dataclass(frozen=True)
class GraphicsName:
    """A function of a graphics API's interoperability: exported, and not supported."""

    base_name: str
    suffix: str
    since: int  # 0: not known to cuGetProcAddress
    per_thread: str = ""
    per_thread_since: int = 0

    @property
    def symbols(self):
        name = self.base_name + self.suffix
        return [name, name + self.per_thread] if self.per_thread else [name]


@dataclass
class Spec:
    kinds: dict[str, Kind]
    # C types that hold pointers or handles, or are functions: only handwritten code knows what they mean over there.
    not_plain: frozenset[str]
    # Domain (the file's name without .toml) to its calls, in the order of the file; domains sorted by name.
    domains: dict[str, list[Call]]
    # What the driver exports without a prototype in cuda.h (graphics.names), sorted.
    graphics: tuple[GraphicsName, ...] = ()

    @property
    def calls(self):
        return [call for calls in self.domains.values() for call in calls]

    @property
    def exports(self):
        return [call for call in self.calls if not call.internal]

    def find(self, name):
        return next((call for call in self.calls if call.name == name), None)
