// The emulated GPU's driver, in the hands of an attacker: at cuInit, the first of its calls that a worker makes once it is in its
// sandbox, it tries what stands in the file NAME.attempts beside this library, a line each (attempts.h; "all": each), and writes
// to NAME.outcomes "PROCESS LINE: OUTCOME", and "PROCESS end". Both are opened when the library is loaded, before the sandbox is
// entered. Processes that find no attempts do nothing. With "needs inotify" it is a driver that makes a call which no list of the
// filter has: cuInit fails where it is not let through. With "needs to write" it does where it may not write beside itself, with
// "is full" there is no memory.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "tests/support/attempts.h"

namespace {

constexpr int kOutOfMemory = 2;        // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kOperatingSystem = 304;  // CUDA_ERROR_OPERATING_SYSTEM

struct Plan {
  std::string name;
  std::vector<std::string> attempts;
  tessera::UniqueFd outcomes;
};
Plan* plan = nullptr;

__attribute__((constructor)) void Prepare() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<void*>(&Prepare), &here) == 0) return;
  plan = new Plan;
  const std::string name = here.dli_fname;
  plan->name = name;
  std::ifstream lines(name + ".attempts");
  for (std::string line; std::getline(lines, line);) plan->attempts.push_back(line);
  plan->outcomes = tessera::UniqueFd(open((name + ".outcomes").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
}

void Tell(const std::string& text) {
  const std::string line = fmt::format("{} {}\n", getpid(), text);
  if (write(plan->outcomes.get(), line.data(), line.size()) < 0) _exit(1);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int cuInit(unsigned flags) {
  if (plan != nullptr && !plan->attempts.empty()) {
    for (const std::string& words : plan->attempts) {
      if (words == "needs inotify") {
        const tessera::UniqueFd watch(inotify_init1(IN_CLOEXEC));
        Tell(words + (watch.valid() ? ": succeeded" : ": refused"));
        if (!watch.valid()) return kOperatingSystem;
        continue;
      }
      if (words == "needs to write") {
        if (!tessera::UniqueFd(open((plan->name + ".outcomes").c_str(), O_WRONLY | O_CLOEXEC)).valid()) return kOperatingSystem;
        continue;
      }
      if (words == "is full") continue;
      if (!words.starts_with("all ")) {
        Tell(words + ": " + tessera::OutcomeOf(words));
        continue;
      }
      for (const tessera::Attempt& attempt : tessera::Attempts()) {
        const std::string one = attempt.name + words.substr(3);
        Tell(one + ": " + tessera::OutcomeOf(one));
      }
    }
    Tell("end");
  }
  return reinterpret_cast<int (*)(unsigned)>(dlsym(RTLD_NEXT, "cuInit"))(flags);
}

extern "C" __attribute__((visibility("default"))) int cuMemAlloc_v2(unsigned long long* place, size_t bytes) {
  if (plan != nullptr && std::ranges::find(plan->attempts, "is full") != plan->attempts.end()) return kOutOfMemory;
  return reinterpret_cast<int (*)(unsigned long long*, size_t)>(dlsym(RTLD_NEXT, "cuMemAlloc_v2"))(place, bytes);
}
