// Which files and memory a worker whose code a client has taken over can still reach.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "protocol/base/unique_fd.h"
#include "server/daemon/gate_memory.h"
#include "tests/server/sandbox/in_sandbox.h"

namespace tessera {
namespace {

TEST_P(SandboxTest, FilesAreClosed) {
  EXPECT_EQ(Try([] { return CanOpen("/etc/shadow", O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/etc/passwd", O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/file", O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/file", O_WRONLY); }), kRefused);
  EXPECT_EQ(Try([this] { return CanOpen(directory_ + "/new", O_WRONLY | O_CREAT); }), kRefused);
  EXPECT_EQ(Try([this] { return truncate((directory_ + "/file").c_str(), 0) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return unlink((directory_ + "/file").c_str()) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return chmod((directory_ + "/file").c_str(), 0777) == 0; }), kRefused);
  EXPECT_EQ(Try([this] { return symlink("/etc/shadow", (directory_ + "/link").c_str()) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/", O_RDONLY | O_DIRECTORY); }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/tmp/sandbox-test", O_WRONLY | O_CREAT); }), kRefused);
}

TEST_P(SandboxTest, WhatADriverNeedsIsOpen) {
  EXPECT_EQ(Try([] { return CanOpen("/dev/null", O_RDWR); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/proc/self/maps", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/proc/cpuinfo", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/sys/devices/system/cpu/online", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return CanOpen("/etc/ld.so.cache", O_RDONLY); }), kSucceeded);
  EXPECT_EQ(Try([] { return UniqueFd(memfd_create("test", MFD_CLOEXEC)).valid(); }), kSucceeded);
  EXPECT_EQ(Try([] {
              bool ran = false;
              std::thread([&] { ran = true; }).join();
              return ran;
            }),
            kSucceeded);
}

// Its vGPU's share is the broker's to decide (server/gate). As a worker does: it maps the page to read before it is in the
// sandbox, and keeps no descriptor of it.
TEST_P(SandboxTest, AGatePageCanBeReadAlone) {
  const auto attempt = [this](const std::function<bool(void* page)>& act) {
    const pid_t pid = fork();
    if (pid == 0) {
      void* page = MAP_FAILED;
      {
        const Result<GateMemory> memory = GateMemory::Make({});
        if (!memory.ok()) _exit(kNoSandbox);
        // The file of an ordinary user's server is its workers' own.
        if (IsRoot() && GetParam() != Who::kOfRoot && GetParam() != Who::kOfRootWithOwnUser &&
            fchown(memory.value().gate_fd(), kOrdinaryUser, kOrdinaryUser) != 0) {
          _exit(kNoSandbox);
        }
        if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.value().worker_gate_fd(), 0) != MAP_FAILED)
          _exit(kSucceeded);
        page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory.value().worker_gate_fd(), 0);
      }
      if (page == MAP_FAILED) _exit(kNoSandbox);
      Enter();
      _exit(Verdict(act(page)));
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  };
  EXPECT_EQ(attempt([](void* page) { return *static_cast<volatile char*>(page) == 0; }), kSucceeded);
  EXPECT_EQ(attempt([](void* page) { return mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0; }), kRefused);
  EXPECT_EQ(attempt([](void* page) {
              return mremap(page, 4096, 8192, MREMAP_MAYMOVE) != MAP_FAILED && mprotect(page, 4096, PROT_WRITE) == 0;
            }),
            kRefused);
  EXPECT_EQ(attempt([](void* page) {
              const UniqueFd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
              return pwrite(memory.get(), "free", 4, static_cast<off_t>(reinterpret_cast<uintptr_t>(page))) == 4;
            }),
            kRefused);
  EXPECT_EQ(attempt([](void* page) {
              char name[128];
              const auto address = reinterpret_cast<uintptr_t>(page);
              snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", address, address + 4096);
              return CanOpen(name, O_RDWR);
            }),
            kRefused);
}

// What Landlock leaves: names, sizes and times of all files. They are not there.
TEST_P(SandboxTest, TheMachinesFilesAreNotThere) {
  if (GetParam() == Who::kWithoutRootOfItsOwn) GTEST_SKIP() << "that is what it lacks";
  for (const std::string& path : {std::string("/home"), std::string("/root"), std::string("/var"), std::string("/tmp"),
                                  std::string("/etc/passwd"), directory_ + "/file"}) {
    EXPECT_EQ(Try([&] {
                struct stat status {};
                return lstat(path.c_str(), &status) == 0 || errno != ENOENT;
              }),
              kRefused)
        << path;
  }
  // Nor are sockets that others listen on, whatever a filter says of calls.
  EXPECT_EQ(Try([] { return access("/run/dbus", F_OK) == 0 || access("/run/user", F_OK) == 0; }), kRefused);
  EXPECT_EQ(Try([] { return mkdir("/usr/new", 0700) == 0 || errno != EROFS; }), kRefused);
  EXPECT_EQ(Try([] { return mkdir("/new", 0700) == 0 || errno != EROFS; }), kRefused);
}

// Where programs of the machine share memory, and the driver keeps its events.
TEST_P(SandboxTest, TheMachinesSharedMemoryIsNotThere) {
  if (GetParam() == Who::kWithoutRootOfItsOwn) GTEST_SKIP() << "that is what it lacks";
  const std::string of_machine = "/dev/shm/sandbox-test-" + std::to_string(getpid());
  std::ofstream(of_machine) << "secret";
  ASSERT_EQ(chmod(of_machine.c_str(), 0666), 0);
  shared_memory_ = directory_;
  EXPECT_EQ(Try([&] { return CanOpen(of_machine, O_RDONLY); }), kRefused);
  EXPECT_EQ(Try([] { return CanOpen("/dev/shm/new", O_RDWR | O_CREAT | O_EXCL); }), kSucceeded);
  // What one worker has left there others have too, unless each has a user of its own.
  const bool shared = GetParam() != Who::kOfRootWithOwnUser;
  EXPECT_EQ(Try([] { return CanOpen("/dev/shm/new", O_RDONLY); }), shared ? kSucceeded : kRefused);
  EXPECT_EQ(std::filesystem::exists(directory_ + "/new"), shared);
  unlink(of_machine.c_str());
}

TEST_P(SandboxTest, ACacheOfCompiledCodeIsForUsersThatAreShared) {
  ASSERT_EQ(setenv("CUDA_CACHE_PATH", directory_.c_str(), 1), 0);
  const int verdict = Try([this] { return CanOpen(directory_ + "/file", O_RDWR); });
  unsetenv("CUDA_CACHE_PATH");
  EXPECT_EQ(verdict, GetParam() == Who::kOfRootWithOwnUser ? kRefused : kSucceeded);
}

}  // namespace
}  // namespace tessera
