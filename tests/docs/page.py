"""The commands of a page of docs/ (marked.py), as a reader types them.

A block that begins with ```sh is run, line by line, each to its end; one that begins with ```sh serve is started and
runs on until the test ends, once it has printed its first line. One that begins with ```LANGUAGE FILE.END is a file that the
reader has written. Other blocks are not run. A reader's names that mean nothing here (gpu7.example) are replaced: a page that does not
have one of them any more fails the test.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import product
from marked import FILE, blocks

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"

class Page:
    """A page, and a home of its own for the one who reads it; a context manager."""

    def __init__(self, name, variables=None, **replaced):
        text = (DOCS / name).read_text(encoding="utf-8")
        for said, here in replaced.items():
            assert said in text, f"{name} does not say {said} any more"
            text = text.replace(said, here)
        self.blocks = blocks(text)
        assert self.blocks, f"{name} has nothing to run"
        self.files = dict(FILE.findall(text))
        self.variables = variables or {}  # of the environment, besides
        self.home = tempfile.mkdtemp()
        self.serving = []

    def __enter__(self):
        os.mkdir(f"{self.home}/run", 0o700)
        shutil.copy(product.program("count"), f"{self.home}/program")
        for name, text in self.files.items():
            pathlib.Path(self.home, name).write_text(text, encoding="utf-8")
        return self

    def __exit__(self, *_):
        self.stop_serving()
        shutil.rmtree(self.home, ignore_errors=True)

    def is_root(self):
        return os.geteuid() == 0

    def environment(self):
        path = os.path.join(product.BUILD, "bin") + ":" + os.environ["PATH"]
        # Where an ordinary user has them; root, whom a test may be, would look in /etc.
        keys = {f"TESSERA_{word.upper()}": f"{self.home}/.config/tessera/{word}.pem" for word in ("certificate", "key", "authority")}
        # Root's places are the machine's.
        sockets, cache, state = (f"{self.home}/{name}" if self.is_root() else None for name in ("run", "cache", "state"))
        return product.environment(HOME=self.home, PATH=path, TESSERA_SOCKET_DIR=sockets, XDG_RUNTIME_DIR=f"{self.home}/run", XDG_CONFIG_HOME=None,
                                   XDG_CACHE_HOME=cache, XDG_STATE_HOME=state, TESSERA_PLACER=None, **keys, **self.variables)

    def shell(self, line, serves):
        """The words of a process that has a shell carry it out."""
        return ["bash", "-c", line]

    def run(self, line):
        """What it prints, on both."""
        done = subprocess.run(self.shell(line, False), cwd=self.home, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, timeout=60)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}exit code {done.returncode}"
        return done.stdout

    def serve(self, line):
        """What it prints first, when it can be used."""
        process = subprocess.Popen(self.shell("exec " + line, True), cwd=self.home, env=self.environment(), stdout=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True)
        product.end_with_test(process)
        self.serving.append(process)
        first = process.stdout.readline()
        assert first, f"$ {line}\nended with exit code {process.wait(20)}"
        return first

    def interrupt(self, process):
        process.send_signal(signal.SIGINT)

    def stop_serving(self):
        for process in reversed(self.serving):
            self.interrupt(process)
            process.wait(20)
            process.stdout.close()
        self.serving.clear()

    def follow(self, between=lambda number: None):
        """Runs all blocks; `between(N)` before block N. What each line printed, by the line."""
        said = {}
        for number, (serves, lines) in enumerate(self.blocks):
            between(number)
            for line in lines:
                said[line] = self.serve(line) if serves else self.run(line)
        return said
