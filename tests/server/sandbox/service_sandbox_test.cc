// What a service that was taken over can still do: every attempt runs in a process of its own that has entered the sandbox, as a
// service of root's server and of an ordinary user's.
#include "server/sandbox/service_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "protocol/base/unique_fd.h"
#include "server/sandbox/capabilities.h"
#include "tests/support/attempts.h"

namespace tessera {
namespace {

constexpr uid_t kOrdinaryUser = 65534;
constexpr uid_t kKeepersUser = 65522;
constexpr Service kWithOtherHosts[] = {Service::kGateway, Service::kAgent, Service::kNode, Service::kPlacer};
enum Outcome : int { kRefused = 0, kSucceeded = 1, kNoSandbox = 2 };

bool CanOpen(const std::string& path, int flags) { return UniqueFd(open(path.c_str(), flags | O_CLOEXEC, 0600)).valid(); }

class ServiceSandboxTest : public testing::TestWithParam<bool> {
 protected:
  static bool OfRoot() { return GetParam(); }

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    const SandboxReport report = InspectSandbox(ServiceSandbox(Service::kImageKeeper, SandboxMode::kRequire, true));
    if (!report.gaps.empty()) GTEST_SKIP() << "this machine cannot do all of it: " << report.gaps.front();
    std::string pattern = "/var/tmp/serviceXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    own_ = directory_ + "/own";
    const uid_t user = OfRoot() ? kKeepersUser : kOrdinaryUser;
    ASSERT_EQ(mkdir(own_.c_str(), 0700), 0);
    ASSERT_EQ(chown(own_.c_str(), user, user), 0);
    std::ofstream(directory_ + "/file") << "secret";
    ASSERT_EQ(chmod((directory_ + "/file").c_str(), 0666), 0);
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  // How a process ends that enters the sandbox and then does `act`.
  int Try(const std::function<bool()>& act, Service service = Service::kImageKeeper) const {
    return Try(act, ServiceSandbox(service, SandboxMode::kRequire, service != Service::kAgent, {own_}));
  }
  static int Try(const std::function<bool()>& act, const SandboxOptions& sandbox) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (!OfRoot() && (setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
                        setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0)) {
        _exit(kNoSandbox);
      }
      const Status entered = EnterSandbox(sandbox);
      if (!entered.ok()) fprintf(stderr, "%s\n", entered.message().c_str());
      _exit(!entered.ok() ? kNoSandbox : act() ? kSucceeded : kRefused);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  }

  void CheckConnections(Service service) const;

  std::string directory_, own_;
};

TEST_P(ServiceSandboxTest, EveryAttemptIsRefused) {
  for (const Attempt& attempt : Attempts()) {
    EXPECT_EQ(Try([&] { return OutcomeOf(attempt.name + std::string(" 1")) != "refused: Operation not permitted"; }), kRefused)
        << attempt.name;
  }
}

TEST_P(ServiceSandboxTest, FilesAreClosedButForItsOwn) {
  for (const std::string& path :
       {std::string("/etc/shadow"), std::string("/etc/passwd"), std::string("/usr/bin/env"), directory_ + "/file"})
    EXPECT_EQ(Try([&] { return CanOpen(path, O_RDONLY); }), kRefused) << path;
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/file", O_WRONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return access((directory_ + "/file").c_str(), F_OK) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(own_ + "/new", O_WRONLY | O_CREAT | O_EXCL); }), kSucceeded);
  EXPECT_EQ(Try([this] { return unlink((own_ + "/new").c_str()) == 0; }), kSucceeded);
}

// systemd's UMask=0077 is the service's.
TEST_P(ServiceSandboxTest, ItsOwnFilesAreThereWhateverItsUmask) {
  const mode_t before = umask(0077);
  EXPECT_EQ(Try([this] { return CanOpen(own_ + "/new", O_CREAT | O_WRONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return umask(0) == 0077; }), kSucceeded);
  umask(before);
}

TEST_P(ServiceSandboxTest, NoSockets) {
  for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    EXPECT_EQ(Try([&] { return UniqueFd(socket(family, SOCK_STREAM, 0)).valid() || errno != EPERM; }), kRefused) << family;
  EXPECT_EQ(Try([] {
              int ends[2];
              return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 || errno != EPERM;
            }),
            kRefused);
}

// They have a listening socket, or connections that others make for them, and nothing else to do with a network.
TEST_P(ServiceSandboxTest, WhoSpeaksWithOtherHostsMakesNoConnections) {
  for (const Service service : kWithOtherHosts) {
    SCOPED_TRACE(static_cast<uid_t>(service));
    CheckConnections(service);
  }
}

// Where an ordinary user's agent sees the machine's files Landlock alone protects them, and older kernels' does not know all of
// it.
TEST_P(ServiceSandboxTest, WhoSpeaksWithOtherHostsChangesNothingByName) {
  const std::string file = directory_ + "/file";
  const std::pair<const char*, std::function<int()>> attempts[] = {
      {"truncate", [&] { return truncate(file.c_str(), 0); }},
      {"utimensat", [&] { return utimensat(AT_FDCWD, file.c_str(), nullptr, 0); }},
      {"rename", [&] { return rename(file.c_str(), (own_ + "/file").c_str()); }},
      {"unlink", [&] { return unlink(file.c_str()); }},
      {"mkdir", [&] { return mkdir((own_ + "/new").c_str(), 0700); }},
      {"chmod", [&] { return chmod(file.c_str(), 0600); }},
      {"link", [&] { return link(file.c_str(), (own_ + "/link").c_str()); }},
  };
  for (const auto& [name, act] : attempts) {
    for (const Service service : kWithOtherHosts)
      EXPECT_EQ(Try([&] { return act() == 0 || errno != EPERM; }, service), kRefused) << name;
  }
}

void ServiceSandboxTest::CheckConnections(Service service) const {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), where, length), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  ASSERT_EQ(getsockname(listener.get(), where, &length), 0);
  const UniqueFd peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd unused(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(peer.get(), where, length), 0);
  const auto attempt = [&](const std::function<bool()>& act) { return Try(act, service); };
  const auto set = [](int socket, int level, int option) {
    const int on = 1;
    return setsockopt(socket, level, option, &on, sizeof(on)) == 0;
  };
  EXPECT_EQ(attempt([&] {
              const UniqueFd taken(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
              return set(taken.get(), IPPROTO_TCP, TCP_NODELAY) && set(taken.get(), SOL_SOCKET, SO_KEEPALIVE);
            }),
            kSucceeded);
  EXPECT_EQ(attempt([&] { return connect(unused.get(), where, length) == 0 || errno != EPERM; }), kRefused);
  EXPECT_EQ(attempt([&] { return set(unused.get(), SOL_SOCKET, SO_MARK) || errno != EPERM; }), kRefused);
  EXPECT_EQ(attempt([] { return UniqueFd(socket(AF_INET, SOCK_STREAM, 0)).valid() || errno != EPERM; }), kRefused);
  EXPECT_EQ(attempt([] { return CanOpen("/etc/shadow", O_RDONLY) || CanOpen("/etc/passwd", O_RDONLY); }), kRefused);
  for (const Attempt& one : Attempts()) {
    EXPECT_EQ(attempt([&] { return OutcomeOf(one.name + std::string(" 1")) != "refused: Operation not permitted"; }), kRefused)
        << one.name;
  }
}

// It has the listening socket of its control API, and threads for it.
TEST_P(ServiceSandboxTest, ABrokerTakesConnectionsAndMakesNone) {
  const std::string path = directory_ + "/control";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd peer(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd unused(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), where, sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  ASSERT_EQ(connect(peer.get(), where, sizeof(address)), 0);
  const auto attempt = [&](const std::function<bool()>& act) { return Try(act, Service::kBroker); };
  EXPECT_EQ(attempt([&] {
              bool taken = false;
              std::thread([&] { taken = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid(); }).join();
              return taken;
            }),
            kSucceeded);
  EXPECT_EQ(attempt([&] { return connect(unused.get(), where, sizeof(address)) == 0 || errno != EPERM; }), kRefused);
  EXPECT_EQ(attempt([&] { return bind(unused.get(), where, sizeof(address)) == 0 || errno != EPERM; }), kRefused);
  EXPECT_EQ(attempt([] { return UniqueFd(socket(AF_UNIX, SOCK_STREAM, 0)).valid() || errno != EPERM; }), kRefused);
  EXPECT_EQ(attempt([] {
              int ends[2];
              return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0;
            }),
            kSucceeded);
  EXPECT_EQ(attempt([] {
              int ends[2];
              return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 || errno != EPERM;
            }),
            kRefused);
  for (const Attempt& one : Attempts()) {
    EXPECT_EQ(attempt([&] { return OutcomeOf(one.name + std::string(" 1")) != "refused: Operation not permitted"; }), kRefused)
        << one.name;
  }
}

// Over UCX it makes connections of networks and loads code of the system, and has nothing else that others lack.
TEST_P(ServiceSandboxTest, OverACardNothingButNetworksIsReached) {
  const auto attempt = [this](const std::function<bool()>& act) {
    return Try(act, NetworkSandbox(Service::kGateway, SandboxMode::kRequire, {own_}));
  };
  for (const Attempt& one : Attempts()) {
    if (one.name == std::string("socket-internet")) continue;
    EXPECT_EQ(attempt([&] { return OutcomeOf(one.name + std::string(" 1")) != "refused: Operation not permitted"; }), kRefused)
        << one.name;
  }
  for (const auto& [family, type] :
       {std::pair(AF_UNIX, SOCK_STREAM), std::pair(AF_INET, SOCK_RAW), std::pair(AF_PACKET, SOCK_RAW)})
    EXPECT_EQ(attempt([&] { return UniqueFd(socket(family, type, 0)).valid() || errno != EPERM; }), kRefused) << family;
  EXPECT_EQ(attempt([this] {
              return CanOpen("/etc/shadow", O_RDONLY) || CanOpen(directory_ + "/file", O_RDONLY) ||
                     CanOpen(own_ + "/new", O_WRONLY | O_CREAT);
            }),
            kRefused);
  EXPECT_EQ(attempt([] {
              const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
              const UniqueFd peer(socket(AF_INET, SOCK_STREAM, 0));
              sockaddr_in address{};
              address.sin_family = AF_INET;
              address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
              socklen_t length = sizeof(address);
              auto* const where = reinterpret_cast<sockaddr*>(&address);
              return bind(listener.get(), where, length) == 0 && listen(listener.get(), 1) == 0 &&
                     getsockname(listener.get(), where, &length) == 0 && connect(peer.get(), where, length) == 0 &&
                     UniqueFd(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)).valid() && CanOpen("/etc/hosts", O_RDONLY);
            }),
            kSucceeded);
}

TEST_P(ServiceSandboxTest, NoCodeThatWasNotThere) {
  const auto map = [](int protection) {
    void* const page = mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? nullptr : page;
  };
  EXPECT_EQ(Try([&] { return map(PROT_READ | PROT_EXEC) != nullptr; }), kRefused);
  EXPECT_EQ(Try([&] { return mprotect(map(PROT_READ | PROT_WRITE), 4096, PROT_READ | PROT_EXEC) == 0; }), kRefused);
  EXPECT_EQ(Try([&] { return mprotect(map(PROT_READ | PROT_WRITE), 4096, PROT_READ) == 0; }), kSucceeded);
}

TEST_P(ServiceSandboxTest, NothingIsLeftOfItsRights) {
  EXPECT_EQ(Try([] {
              const uid_t user = OfRoot() ? kKeepersUser : kOrdinaryUser;
              return getuid() == user && geteuid() == user && getgid() == user && (!OfRoot() || getgroups(0, nullptr) == 0) &&
                     !HasCapability(0);
            }),
            kSucceeded);
  EXPECT_EQ(Try([] {
              rlimit core{1, 1};
              return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0;
            }),
            kSucceeded);
  EXPECT_EQ(Try([] { return setuid(0) == 0; }), kRefused);
}

TEST_P(ServiceSandboxTest, WhatItDoesGoesOn) {
  EXPECT_EQ(Try([] {
              bool ran = false;
              std::thread([&] { ran = true; }).join();
              return ran && UniqueFd(memfd_create("test", MFD_CLOEXEC)).valid();
            }),
            kSucceeded);
}

INSTANTIATE_TEST_SUITE_P(Services, ServiceSandboxTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& one) { return one.param ? "OfRoot" : "OfOrdinaryUser"; });

}  // namespace
}  // namespace tessera
