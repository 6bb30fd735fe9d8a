// Attempts of a worker whose code a client has taken over. Each runs in a process of its own that has entered the sandbox: as
// root's worker (with another user), or as an ordinary user's. One thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace tessera {

inline constexpr uid_t kOrdinaryUser = 65534;
// The user of a worker that has one of its own.
inline constexpr uid_t kOwnUser = 271001;

// Exit codes of the processes.
inline constexpr int kRefused = 0;
inline constexpr int kSucceeded = 1;
inline constexpr int kNoSandbox = 2;

inline bool IsRoot() { return geteuid() == 0; }
inline int Verdict(bool succeeded) { return succeeded ? kSucceeded : kRefused; }
bool CanOpen(const std::string& path, int flags);

// A process to attack. It lives until the destructor kills it.
class Victim {
 public:
  // The process calls `prepare` first; the constructor waits for that.
  explicit Victim(const std::function<void()>& prepare);
  ~Victim();
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Which worker it is: of a server that root started, with the workers' user or with a user of its own; or of an ordinary user's
// server. kWithoutRootOfItsOwn has no private root: Landlock alone protects it.
enum class Who { kOfRoot, kOfRootWithOwnUser, kOfOrdinaryUser, kWithoutRootOfItsOwn };

// Skipped where this machine cannot do all of it.
class SandboxTest : public testing::TestWithParam<Who> {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Enters the sandbox, or ends the process with kNoSandbox.
  void Enter(uid_t own_user = kOwnUser) const;
  // The exit code of a process that enters the sandbox and then calls `act`: kSucceeded when that is true.
  int Try(const std::function<bool()>& act) const;

  std::string directory_;      // for everybody, in a place like a home directory; has a `file` for everybody
  std::string shared_memory_;  // SandboxOptions::shared_memory of those that enter it
};

}  // namespace tessera
