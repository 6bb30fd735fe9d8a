// The modes of the sandbox (off, log, require), and what its rules for files allow.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/file_rules.h"
#include "server/sandbox/sandbox.h"
#include "tests/server/sandbox/in_sandbox.h"
#include "tests/support/attempts.h"

namespace tessera {
namespace {

TEST(SandboxModes, OffChangesNothing) {
  const pid_t pid = fork();
  if (pid == 0) {
    SandboxOptions options;
    options.mode = SandboxMode::kOff;
    if (!EnterSandbox(options).ok()) _exit(kNoSandbox);
    _exit(Verdict(CanOpen("/etc/passwd", O_RDONLY)));
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), kSucceeded);
}

// Else it would say nothing that an attempt was refused in a sandbox.
TEST(SandboxModes, WithoutASandboxAttemptsSucceed) {
  // A user and a group of processes without others, whose priorities may differ.
  const auto become_user = [] {
    constexpr uid_t kNobodyElse = kOwnUser + 9;
    if (setpgid(0, 0) != 0 || (IsRoot() && setresuid(kNobodyElse, kNobodyElse, kNobodyElse) != 0)) _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
  };
  const Victim user(become_user);
  const pid_t pid = fork();
  if (pid == 0) {
    become_user();
    for (const Attempt& attempt : Attempts()) {
      const std::string outcome = OutcomeOf(attempt.name + (" " + std::to_string(user.pid())));
      const bool said = attempt.otherwise == Attempt::Otherwise::kSucceeds ? outcome == "succeeded"
                                                                           : outcome != "refused: Operation not permitted";
      if (said || attempt.otherwise == Attempt::Otherwise::kDepends) continue;
      fprintf(stderr, "%s: %s\n", attempt.name, outcome.c_str());
      _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SandboxModes, LogTellsAndLetsItHappen) {
  int out[2];
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], STDERR_FILENO);
    SandboxOptions options;
    options.mode = SandboxMode::kLog;
    if (!EnterSandbox(options).ok()) _exit(kNoSandbox);
    const bool opened = CanOpen("/etc/passwd", O_RDONLY);
    const bool allowed = CanOpen("/dev/null", O_RDONLY);
    const bool made = UniqueFd(socket(AF_INET, SOCK_STREAM, 0)).valid();
    _exit(Verdict(opened && allowed && made));
  }
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(out[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(size));
  close(out[0]);
  int status = -1;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == kNoSandbox) GTEST_SKIP() << "system calls cannot be watched here";
  EXPECT_EQ(WEXITSTATUS(status), kSucceeded);
  EXPECT_NE(text.find("the sandbox would refuse opening /etc/passwd"), std::string::npos) << text;
  EXPECT_NE(text.find("the sandbox would refuse socket"), std::string::npos) << text;
  EXPECT_EQ(text.find("/dev/null"), std::string::npos) << text;
}

TEST(SandboxModes, RequireFailsWhereSomethingIsMissing) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  SandboxOptions options;
  options.mode = SandboxMode::kRequire;  // and nobody to become
  const pid_t pid = fork();
  if (pid == 0) _exit(EnterSandbox(options).ok() ? 1 : 0);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SandboxModes, Words) {
  SandboxMode mode = SandboxMode::kOff;
  EXPECT_TRUE(ParseSandboxMode("require", &mode));
  EXPECT_EQ(mode, SandboxMode::kRequire);
  EXPECT_FALSE(ParseSandboxMode("yes", &mode));
  EXPECT_FALSE(ParseSandboxMode("", &mode));
}

TEST(FileRules, AskedByPath) {
  const std::vector<FileRule> rules = {{"/usr", FileRule::Access::kRead}, {"/dev/null", FileRule::Access::kReadWrite}};
  EXPECT_TRUE(RulesAllow(rules, "/usr/lib/something.so", false));
  EXPECT_FALSE(RulesAllow(rules, "/usr/lib/something.so", true));
  EXPECT_FALSE(RulesAllow(rules, "/usrother", false));
  EXPECT_FALSE(RulesAllow(rules, "/usr/../etc/passwd", false));
  EXPECT_TRUE(RulesAllow(rules, "/dev/null", true));
}

// As the home of another user is.
TEST(FileRules, ARuleThatCannotBeFollowedAllowsNothing) {
  std::string directory = "/tmp/sandboxXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string circle = directory + "/circle";
  ASSERT_EQ(symlink(circle.c_str(), circle.c_str()), 0);
  EXPECT_FALSE(RulesAllow({{circle, FileRule::Access::kReadWrite}}, "/etc/passwd", false));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera
