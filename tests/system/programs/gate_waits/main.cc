// Work that waits for work behind it, for another process or for the program: it ends, with right results, whatever the gate of
// GPU time does meanwhile (docs/share-a-gpu.md). Each case is a word. A line tells of each one that it is done, and how many ms
// it took.
//
// usage: gate_waits CASE... [--launches N, 30] [--kernel-us N, 3000] [--rounds N, 20] [--seconds N, 1] [--peer-vgpu NAME]
//   value-END: --launches kernels of --kernel-us behind a stream's wait for a value
//   spin-END: the same behind a kernel that spins. END is what ends the wait: a record that stands behind them, a kernel or a
//     copy of another stream, or host: the program, once all launches have returned
//   events, flags, values, event, long: with a second process, in --peer-vgpu; as a rule in its own vGPU
//   capture: prints a line and waits for one, twice: within a capture, and before its graph is launched
//   functions: 10,000 launches behind a host function
//   aside: what a host function asks, while launches wait
//   threads: what other threads call, while launches wait
//   idle: a session that does nothing until its input ends
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cases.h"
#include "pair.h"
#include "parts.h"

using namespace gate_waits;

namespace {

bool RunAlone(const std::string& name) {
  if (name == "idle") return AwaitLine("idle"), true;
  return RunBehind(name) || RunCapture(name) || RunFunctions(name) || RunThreads(name);
}

// The second process: the same words, and the socket.
class Peer {
 public:
  explicit Peer(char** words) {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    EXPECT_EQ(sockets[0] >= 0 && fcntl(sockets[0], F_SETFD, FD_CLOEXEC) == 0, true);
    socket_ = sockets[0];
    std::vector<std::string> more = {"--socket", std::to_string(sockets[1])};
    std::vector<char*> arguments;
    for (char** word = words; *word != nullptr; ++word) arguments.push_back(*word);
    for (std::string& word : more) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (!options.peer_vgpu.empty()) setenv("TESSERA_VGPU", options.peer_vgpu.c_str(), 1);
    EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
    close(sockets[1]);
  }
  ~Peer() {
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
  }
  int socket() const { return socket_; }

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  int socket = -1;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      names.push_back(word);
      continue;
    }
    const char* const value = i + 1 < argc ? argv[++i] : "";
    if (word == "--launches") options.launches = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    if (word == "--kernel-us") options.kernel_us = std::strtoull(value, nullptr, 0);
    if (word == "--rounds") options.rounds = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    if (word == "--seconds") options.seconds = std::strtod(value, nullptr);
    if (word == "--peer-vgpu") options.peer_vgpu = value;
    if (word == "--socket") socket = std::atoi(value);
  }
  const bool first = socket < 0;
  std::optional<Peer> peer;  // a process of its own, before this one has begun anything
  const bool pairs = std::any_of(names.begin(), names.end(), [](const std::string& name) { return FindPair(name) != nullptr; });
  if (first && pairs) socket = peer.emplace(argv).socket();
  LoadAll();
  for (const std::string& name : names) {
    const Clock::time_point begin = Clock::now();
    if (const auto pair_case = FindPair(name)) {
      Pair pair(socket, first);
      pair_case(pair, first);
    } else if (first && !RunAlone(name)) {
      std::fprintf(stderr, "there is no case %s\n", name.c_str());
      return 2;
    }
    if (!first) continue;
    std::printf("%s %.0f\n", name.c_str(), std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    std::fflush(stdout);
  }
  return 0;
}
