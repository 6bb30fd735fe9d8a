#include "server/emulator/driver/device/named_memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace tessera::emulator {
namespace {

constexpr const char* kDirectory = "/dev/shm";
constexpr const char* kPrefix = "tessera-emulated-";

std::string PathOf(uint64_t number) { return fmt::format("{}/{}{:016x}", kDirectory, kPrefix, number); }

// Whoever made a file holds its lock as long as it lives.
void RemoveLeftFiles() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kDirectory, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const UniqueFd fd(open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) unlink(entry.path().c_str());
  }
}

}  // namespace

std::shared_ptr<NamedMemory> NamedMemory::Create(uint64_t size_bytes) {
  [[maybe_unused]] static const bool once = (RemoveLeftFiles(), true);
  for (int attempt = 0; attempt < 3; ++attempt) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number) || number == 0) continue;
    UniqueFd fd(open(PathOf(number).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) continue;
    auto memory = std::shared_ptr<NamedMemory>(new NamedMemory(std::move(fd), number, true));
    struct stat status {};
    // Another process may have taken it for one that was left, before it was locked.
    if (flock(memory->fd(), LOCK_EX | LOCK_NB) != 0 || fstat(memory->fd(), &status) != 0 || status.st_nlink == 0) continue;
    // The pages are taken now: a file system that is full says so here.
    if (posix_fallocate(memory->fd(), 0, static_cast<off_t>(size_bytes)) != 0) return nullptr;
    return memory;
  }
  return nullptr;
}

std::shared_ptr<NamedMemory> NamedMemory::Open(uint64_t number, uint64_t size_bytes) {
  UniqueFd fd(open(PathOf(number).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < size_bytes) return nullptr;
  return std::shared_ptr<NamedMemory>(new NamedMemory(std::move(fd), number, false));
}

NamedMemory::~NamedMemory() {
  if (own_) unlink(PathOf(number_).c_str());
}

}  // namespace tessera::emulator
