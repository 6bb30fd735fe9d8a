// Asks every row (row.h) and prints `name: code`, or compares with what the rows say.
//
// usage: refusals [--link] [--only TEXT] [--print]
//   --link: client and server share no pages
//   --only: the rows in whose name, or file of client-stub, the text is
//   --print: the answers alone; otherwise the program prints which are not those of the rows, and "ok" last when all
//   are
//
// The rows are asked by a child that is started anew behind a row that ended it, waited too long, or leaves a broken
// context.
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "objects.h"
#include "row.h"

extern char** environ;

namespace refusals {
namespace {

constexpr int kRowMsMax = 20'000;
constexpr int kAnswersFile = 9;  // of the child that asks

std::string only;

bool IsWanted(const Row& row) {
  return std::strstr(row.name, only.c_str()) != nullptr || std::strstr(row.where, only.c_str()) != nullptr;
}

// In their order, those that are wanted.
std::vector<const Row*> AllRows() {
  std::vector<const Row*> all;
  for (const auto rows : {ContextRows(), WithoutContextRows(), StreamRows(), CaptureRows(), CaptureEndRows(), CopyRows(),
                          MemoryRows(), HostAllocationRows(), HostMemoryRows(), ManagedRows(), PoolRows(), HostPoolRows(),
                          GraphRows(), LaunchRows(), ModuleRows(), TextureRows(), UnsupportedRows()}) {
    for (const Row& row : rows) {
      if (IsWanted(row)) all.push_back(&row);
    }
  }
  return all;
}

// Asks rows from `first` on until one leaves something behind. Each answer is written to `out` as "row code\n".
void AskFrom(size_t first, int out) {
  const std::vector<const Row*> rows = AllRows();
  bool initialized = false;
  CUcontext context = nullptr;
  for (size_t i = first; i < rows.size(); ++i) {
    const Row& row = *rows[i];
    if ((row.options & kBeforeInit) == 0 && !initialized) {
      CHECK_DRIVER(cuInit(0));
      CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
      CHECK_DRIVER(cuCtxSetCurrent(context));
      initialized = true;
    }
    const CUresult answer = row.ask();
    dprintf(out, "%zu %d\n", i, static_cast<int>(answer));
    if ((row.options & kOwnProcess) != 0 || (initialized && cuCtxSynchronize() != CUDA_SUCCESS)) return;
  }
}

// The child's pid; its answers are read from `*answers`.
pid_t Start(const char* self, size_t first, int* answers) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kAnswersFile);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  const std::string from = std::to_string(first);
  char* const arguments[] = {const_cast<char*>(self),
                             const_cast<char*>("--from"),
                             const_cast<char*>(from.c_str()),
                             const_cast<char*>("--only"),
                             only.data(),
                             nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environ) != 0) std::exit(1);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  *answers = ends[0];
  return child;
}

// A line of `file`, or nothing at its end or after kRowMsMax.
std::string ReadLine(int file) {
  std::string line;
  for (char c = 0;;) {
    pollfd ready{file, POLLIN, 0};
    if (poll(&ready, 1, kRowMsMax) != 1 || read(file, &c, 1) != 1) return "";
    if (c == '\n') return line;
    line += c;
  }
}

// Calls `tell` with each row and its answer: a code, "signal N", "no answer" or "its preparation failed".
template <typename Tell>
void AskAll(const char* self, const Tell& tell) {
  const std::vector<const Row*> rows = AllRows();
  const size_t count = rows.size();
  for (size_t next = 0; next < count;) {
    int file = -1;
    const pid_t child = Start(self, next, &file);
    for (std::string line; !(line = ReadLine(file)).empty();) {
      next = std::stoul(line);
      tell(*rows[next++], line.substr(line.find(' ') + 1));
    }
    close(file);
    int status = 0;
    const bool ended = waitpid(child, &status, WNOHANG) == child || (usleep(300'000), waitpid(child, &status, WNOHANG) == child);
    if (!ended) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    if (next == count) break;
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;  // it left something behind
    tell(*rows[next++], !ended                ? "no answer"
                        : WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                              : "its preparation failed");
  }
}

struct Place {
  bool forwarded = false;  // not in the driver's own process: what the documents name as limits applies
  bool emulated = false;   // the device has not everything
  bool link = false;       // client and server share no pages
};

Place FindPlace() {
  char name[64] = "";
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDeviceGetName(name, sizeof(name), 0));
  return {std::getenv("TESSERA_SERVER") != nullptr, std::strstr(name, "mulat") != nullptr};
}

// What the row answers there; nothing where it cannot be asked.
std::string Expected(const Row& row, const Place& place) {
  if (place.emulated && (row.options & kNeedsGpu) != 0) return "";
  if (!place.forwarded && (row.options & kDangerous) != 0) return "";
  const bool limited = row.limit != nullptr && ((row.options & kOnLinks) != 0 ? place.link : place.forwarded);
  return std::to_string(static_cast<int>(limited ? row.forwarded : row.answer));
}

}  // namespace
}  // namespace refusals

int main(int argc, char** argv) {
  using namespace refusals;
  bool print = false, link = false;
  const char* from = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--print") print = true;
    if (option == "--link") link = true;
    if (option == "--only" && i + 1 < argc) only = argv[++i];
    if (option == "--from" && i + 1 < argc) from = argv[++i];
  }
  if (from != nullptr) {
    AskFrom(std::stoul(from), kAnswersFile);
    _exit(0);
  }
  Place place = FindPlace();
  place.link = link;
  int wrong = 0;
  AskAll(argv[0], [&](const Row& row, const std::string& answer) {
    if (print) {
      std::printf("%s: %s\n", row.name, answer.c_str());
    } else if (const std::string expected = Expected(row, place); !expected.empty() && answer != expected) {
      std::printf("%s: %s, expected %s (%s)\n", row.name, answer.c_str(), expected.c_str(), row.where);
      ++wrong;
    } else if (!place.forwarded && (row.options & kUnmeasured) != 0) {
      std::printf("%s: %s, as the row says, which nobody had measured: drop kUnmeasured (%s)\n", row.name, answer.c_str(),
                  row.where);
    }
    std::fflush(stdout);
  });
  if (wrong != 0) return 1;
  if (!print) std::printf("ok\n");
}
