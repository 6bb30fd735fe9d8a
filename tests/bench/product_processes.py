"""What processes use, from /proc: processor time and memory."""
import os

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it has ended, or is another user's
        return ""


def of_program(path, variable):
    """The processes that run this file and have `variable` (NAME=value) in the environment that they were started with."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            mine = os.readlink(f"/proc/{pid}/exe") == os.path.realpath(path)
            with open(f"/proc/{pid}/environ", "rb") as environment:
                mine = mine and variable.encode() in environment.read().split(b"\0")
        except OSError:
            continue
        if mine:
            found.append(int(pid))
    return found


def with_descendants(pid):
    parents = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        words = _read(f"/proc/{other}/stat").rpartition(")")[2].split()
        if words:
            parents.setdefault(int(words[1]), []).append(int(other))
    found = [pid]
    for one in found:
        found.extend(parents.get(one, []))
    return found


def _ticks_s(stat):
    words = stat.rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * TICK_S if words else 0.0


def _thread_s(pid, thread):
    """Nanoseconds where the kernel counts them for each thread (CONFIG_SCHED_INFO), else ticks."""
    schedule = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
    if schedule and schedule[0] != "0":
        return int(schedule[0]) * 1e-9
    return _ticks_s(_read(f"/proc/{pid}/task/{thread}/stat"))


def main_thread_s(pid):
    return _thread_s(pid, pid)


def processor_s(pid):
    """Of all its threads so far, also those that have ended (by ticks: a hundredth of a second)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    living = sum(_thread_s(pid, thread) for thread in threads)
    return max(living, _ticks_s(_read(f"/proc/{pid}/stat")) - TICK_S)


def memory_mib(pid):
    """Resident memory in MiB: what lies in memory files, which processes of a session share, and all the rest. None where this
    user may not look."""
    maps = _read(f"/proc/{pid}/smaps")
    if not maps:
        return None
    own = shared = 0
    in_file = False
    for line in maps.splitlines():
        words = line.split()
        if not words[0].endswith(":"):  # the first line of a mapping: addresses, ..., its name
            in_file = len(words) > 5 and words[5].startswith(("/memfd:", "/dev/shm/"))
        elif words[0] == "Rss:":
            if in_file:
                shared += int(words[1])
            else:
                own += int(words[1])
    return {"own_mib": own / 1024, "shared_mib": shared / 1024}
