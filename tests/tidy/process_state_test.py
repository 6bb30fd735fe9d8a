#!/usr/bin/env python3
"""What the product keeps for a whole process is in objects that own it, not in variables of files and functions: a table behind
`static auto* const table = new Table` is in no list, has no owner, and no order among others.

  process_state_test.py BUILD      BUILD is the build directory; exit status 77 when nothing was built

Read in the object files, which know every variable that is written, whatever it is declared as. A `static const` that is made on
first use is one of those that are not written after it, unless it points to something.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import sources

PRODUCT = ("client-stub/", "server/", "protocol/", "programs/", "scheduler/", "netaware/")
build = None

# "file: variable", as expressions, by the reason why it is a variable of its own.
ALLOWED = {
    "the one object of a library or driver, from which all else is reached, and where its parts are found": [
        r".*: PartOfProcess<.*>::made_",
        r"client-stub/nvml/library\.cc: nvml::TheLibrary::library",
        r"server/emulator/driver/core/driver\.cc: emulator::GetDriver::driver",
    ],
    "of the thread, not of the process": [
        r"client-stub/session/thread_state\.cc: current_thread_state",
        r"client-stub/process/error_log\.cc: ErrorLog::Add::telling",
        r"client-stub/process/guest_thread\.cc: is_guest_thread",
        r"client-stub/managed/service_thread\.cc: is_service_thread",
        r"client-stub/managed/fault_handler\.cc: (host_functions|handed_on|handed_to)",
        r"server/worker/gate/busy_streams\.cc: BusyStreams::last_",
        r"server/worker/threads/driver_thread\.cc: DriverThread::Of::thread",
        r"server/worker/calls/occupancy\.cc: shared_bytes_of_block",
        r"server/emulator/driver/code/kernel_requests\.cc: emulator::current_requests",
        r"server/emulator/driver/core/driver\.cc: emulator::GetThread::state",
        r"server/emulator/driver/device/device_time\.cc: emulator::OfThread::on_device",
    ],
    "read by signal handlers, which may look at nothing that is being made": [
        r"client-stub/managed/fault_handler\.cc: (watched|watched_count|earlier|earlier_count|install_mutex)",
        r"server/worker/device_output\.cc: abort_(from|to|offset)",
        r"programs/key_input\.cc: g_before",
    ],
    "handed to libraries that keep its address, and constant since": [
        r"client-stub/hidden_tables/\w+\.cc: \w+::(table|filled)",
        r"client-stub/hidden_tables/runtime_hooks\.cc: (call_flags|event_flags)",
    ],
    "the log, which is there before everything and after it": [
        r"protocol/base/log\.cc: (log_fd|Logger::logger|ChildLogger::logger)",
        r"protocol/base/(first_time|log)\.cc: WasSaid::said",
        r"protocol/channel/channel_segments\.cc: TellNotMapped::told",
    ],
    "counts what all channels, links or workers of the process share the cores or the numbers for": [
        r"protocol/channel/waiting\.cc: g_spinners",
        r"server/worker/threads/thread_contexts\.cc: NextSerial::next",
    ],
    "threads for all TLS links of the process, which end in no order": [
        r"protocol/link/tls/tls_crew\.cc: TlsCrew::OfProcess::crew",
    ],
    "a library that is loaded once": [
        r"server/emulator/driver/api/entry_proc_address\.cc: Lookup::self",
    ],
    "what the driver alone points to, for leak checkers": [
        r"server/worker/streams/host_function\.cc: NodeTargets::Get::all",
    ],
    "the page of an emulated machine that no other process uses": [
        r"server/emulator/driver/base/options\.cc: emulator::MapPage::own",
    ],
    "of a test's driver, of which there is one": [
        r"server/driver/recording_driver\.cc: current",
    ],
}


def sources_of(file):
    """The sources behind a compiled file, as paths relative to the root: itself, or those that a file of CMake's UNITY_BUILD includes."""
    file = pathlib.Path(file)
    if "Unity" in file.parts and file.is_file():
        return [source for included in re.findall(r'#include "([^"]+)"', file.read_text()) for source in sources_of(included)]
    return [file.relative_to(sources.ROOT)] if file.is_relative_to(sources.ROOT) else []


def object_files():
    """object file -> its sources; those that were built. One that has a test too is not of the product, which has the rest of it elsewhere."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        output = re.search(r" -o (\S+)", entry["command"])
        if output is None:
            continue
        file = pathlib.Path(entry["directory"]) / output[1]
        those = sources_of(entry["file"])
        if those and all(str(source).startswith(PRODUCT) for source in those) and file.is_file():
            found[file] = those
    return found


def source_with(variable, those):
    """Which of the sources most probably has the variable: what names it, in a declaration, and the function that it is of."""
    name, function = re.escape(variable.split("::")[-1]), re.escape("".join(variable.split("::")[-2:-1]))
    signs = (rf"\b{name}\b", rf"^\w.*\b{name}\b", rf"\b(static|thread_local)\b.*\b{name}\b", rf"^\w[^;\n]*\b{function}\(")

    def count(source):
        text = (sources.ROOT / source).read_text()
        return sum(re.search(sign, text, re.MULTILINE) is not None for sign in signs)

    return max(those, key=count)


def plain(symbol):
    """Without namespaces of ours that say nothing, and without parameters."""
    name = symbol.replace("(anonymous namespace)::", "").replace("[abi:cxx11]", "")
    while (shorter := re.sub(r"\([^()]*\)( const)?", "", name)) != name:
        name = shorter
    return name.replace("tessera::", "")


def variables(files):
    """(object file, variable) for each that is in memory that is written."""
    listing = subprocess.run(["nm", "--demangle", "--format=sysv", *files], check=True, capture_output=True, text=True).stdout
    file = files[0]
    for line in listing.splitlines():
        if match := re.match(r"Symbols from (.*):$", line):
            file = type(files[0])(match[1])
        symbol, *columns = (part.strip() for part in line.rsplit("|", 6))
        if len(columns) != 6 or not re.match(r"\.t?(data|bss)\b(?!\.rel\.ro)|\*COM\*", columns[5]):
            continue
        if not re.match(r"guard variable for |TLS |\.|__|DW\.|(spdlog|fmt|std|google|absl|grpc|CLI)::", symbol):
            yield file, plain(symbol)


def is_constant(text, variable):
    name = re.escape(variable.split("::")[-1])
    return re.search(rf"\bstatic const (?!.*_ptr)[^=;*&()]*\b{name}\b", text) is not None


class ProcessState(unittest.TestCase):
    maxDiff = None

    def test_variables_have_owners(self):
        source_of = object_files()
        self.assertGreater(len(source_of), 50)
        allowed = [expression for expressions in ALLOWED.values() for expression in expressions]
        found, used = set(), set()
        for file, variable in variables(sorted(source_of)):
            source = source_with(variable, source_of[file])
            name = f"{source}: {variable}"
            matching = [expression for expression in allowed if re.fullmatch(expression, name)]
            used.update(matching)
            if not matching and not is_constant((sources.ROOT / source).read_text(), variable):
                found.add(name)
        self.assertEqual(sorted(found), [], "these belong to an object (client-stub: root/process_object.h), or to the list with a reason")
        built = {str(source) for those in source_of.values() for source in those}
        stale = [e for e in allowed if e not in used and any(re.match(e.split(": ")[0] + "$", source) for source in built)]
        self.assertEqual(stale, [], "nothing is called that any more")

    def test_every_part_that_is_asked_for_is_made(self):
        # Another type, a const one say, is another part: nobody makes it, and asking for it follows a null pointer.
        part = r"PartOfProcess<((?:[^<>]|<[^<>]*>)+)>"
        asked = {kind for path in sources.source_files("client-stub") for kind in re.findall(part + "::(?:Get|IfMade)", (sources.ROOT / path).read_text())}
        made = set(re.findall(part + r" \w+;", (sources.ROOT / "client-stub/root/process_object.h").read_text()))
        self.assertGreater(len(made), 20)
        self.assertEqual(asked - {"T"} - made, set(), "no member of ProcessObject")

    def test_the_test_would_notice(self):
        text = """
          #include <atomic>
          #include <memory>
          #include <string>
          #include <vector>
          namespace tessera {
          int Now();
          struct Table { std::vector<int> rows; static inline std::atomic<Table*> last; };
          constexpr int kNumbers[] = {1, 2};
          const char* const kNames[] = {"a", "b"};
          namespace { std::atomic<int> count{0}; }
          Table& Tables(int) { static auto* const table = new Table; Table::last = table; return *table; }
          int Next() { static int next = 1; thread_local int calls = 0; return next++ + ++calls + ++count; }
          int Cores() { static const int cores = Now(); return cores + kNumbers[Now()] + *kNames[Now()]; }
          Table* Owned() { static const std::unique_ptr<Table> owned(new Table); return owned.get(); }
          }
        """
        with tempfile.TemporaryDirectory() as folder:
            source, file = pathlib.Path(folder) / "a.cc", pathlib.Path(folder) / "a.o"
            source.write_text(text)
            subprocess.run(["c++", "-std=c++20", "-O2", "-fPIC", "-c", source, "-o", file], check=True)
            found = {variable for _, variable in variables([file]) if not is_constant(text, variable)}
        self.assertEqual(found, {"count", "Table::last", "Tables::table", "Next::next", "Next::calls", "Owned::owned"})


if __name__ == "__main__":
    build = pathlib.Path(sys.argv.pop()).resolve()
    if not (build / "compile_commands.json").is_file():
        print(f"{build} is no build")
        sys.exit(77)
    unittest.main()
