#include "tests/server/sandbox/in_sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/sandbox.h"

namespace tessera {
namespace {

const WorkerUser kNobody = {"nobody", kOrdinaryUser, kOrdinaryUser};

WorkerUser Own(uid_t uid) { return {std::to_string(uid), uid, static_cast<gid_t>(uid), true}; }

// What this machine lacks for the whole sandbox; empty: nothing.
std::string WhatIsMissing(bool private_root) {
  SandboxOptions options;
  options.user = kNobody;
  options.private_root = private_root;
  const SandboxReport report = InspectSandbox(options);
  return report.gaps.empty() ? "" : report.gaps.front();
}

}  // namespace

bool CanOpen(const std::string& path, int flags) { return UniqueFd(open(path.c_str(), flags | O_CLOEXEC, 0600)).valid(); }

Victim::Victim(const std::function<void()>& prepare) {
  int ready[2];
  EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
  pid_ = fork();
  if (pid_ == 0) {
    prepare();
    close(ready[1]);
    for (;;) pause();
  }
  close(ready[1]);
  char none;
  EXPECT_EQ(read(ready[0], &none, 1), 0);  // its end of the pipe is closed: it is prepared
  close(ready[0]);
}

Victim::~Victim() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void SandboxTest::SetUp() {
  const bool of_root = GetParam() == Who::kOfRoot || GetParam() == Who::kOfRootWithOwnUser;
  if (of_root && !IsRoot()) GTEST_SKIP() << "needs root";
  const std::string missing = WhatIsMissing(GetParam() != Who::kWithoutRootOfItsOwn);
  if (!missing.empty()) GTEST_SKIP() << "this machine cannot do all of it: " << missing;
  std::string pattern = "/var/tmp/sandboxXXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  directory_ = pattern;
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  std::ofstream(directory_ + "/file") << "secret";
  ASSERT_EQ(chmod((directory_ + "/file").c_str(), 0666), 0);
}

void SandboxTest::TearDown() {
  if (!directory_.empty()) std::filesystem::remove_all(directory_);
}

void SandboxTest::Enter(uid_t own_user) const {
  SandboxOptions options;
  options.mode = SandboxMode::kRequire;
  options.shared_memory = shared_memory_;
  options.private_root = GetParam() != Who::kWithoutRootOfItsOwn;
  if (GetParam() == Who::kOfRoot) {
    options.user = kNobody;
  } else if (GetParam() == Who::kOfRootWithOwnUser) {
    options.user = Own(own_user);
  } else if (IsRoot() && (setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
                          setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0)) {
    _exit(kNoSandbox);
  }
  const Status status = EnterSandbox(options);
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.message().c_str());
  _exit(kNoSandbox);
}

int SandboxTest::Try(const std::function<bool()>& act) const {
  const pid_t pid = fork();
  if (pid == 0) {
    Enter();
    _exit(Verdict(act()));
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

INSTANTIATE_TEST_SUITE_P(Workers, SandboxTest,
                         testing::Values(Who::kOfRoot, Who::kOfRootWithOwnUser, Who::kOfOrdinaryUser, Who::kWithoutRootOfItsOwn),
                         [](const auto& info) -> std::string {
                           switch (info.param) {
                             case Who::kOfRoot: return "OfRoot";
                             case Who::kOfRootWithOwnUser: return "OfRootWithOwnUser";
                             case Who::kOfOrdinaryUser: return "OfOrdinaryUser";
                             case Who::kWithoutRootOfItsOwn: return "WithoutRootOfItsOwn";
                           }
                           return "";
                         });

}  // namespace tessera
