"""The generated tree: files are written only when their content changed, so that unchanged ones are not compiled again."""

import pathlib


class Output:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.written = []

    def write(self, name, source, lines, comment="//"):
        """`lines` are joined; the first line of the file names where it comes from."""
        text = f"{comment} Generated from {source} by protocol/codegen. Do not edit.\n" + "\n".join(lines) + "\n"
        self.write_text(self.directory / name, text)
        self.written.append(name)

    @staticmethod
    def write_text(path, text):
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def spec_file(domain):
    return f"protocol/spec/{domain}.toml"


ALL = "protocol/spec/*.toml"


def indent(lines, depth=1):
    return ["  " * depth + line if line else line for line in lines]


def block(head, body, tail="}"):
    return [head + " {", *indent(body), tail]


def in_namespace(lines):
    return ["namespace tessera {", "", *lines, "", "}  // namespace tessera"]
