#include "client-stub/process/compile_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr char kMagic[8] = {'t', 'e', 's', 's', 'j', 'i', 't', '1'};

// A file: this, the key, the result.
struct Header {
  char magic[8];
  uint64_t key_bytes;
  uint64_t result_bytes;
  uint64_t result_hash;
};

uint64_t Hash(std::string_view bytes) { return std::hash<std::string_view>()(bytes); }

bool ReadAll(int fd, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// With all above it that is missing; for the user alone.
bool MakeDirectory(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return false;
    if (slash == std::string::npos) return true;
  }
}

}  // namespace

std::string CompileCache::PathOf(std::string_view key) const {
  return fmt::format("{}/{:016x}-{:x}", directory_, Hash(key), key.size());
}

bool CompileCache::Load(std::string_view key, std::vector<std::byte>* result) const {
  if (directory_.empty()) return false;
  const UniqueFd file(open(PathOf(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  Header header;
  if (!file.valid() || fstat(file.get(), &status) != 0 || !ReadAll(file.get(), &header, sizeof(header))) return false;
  // Another key may have the same hash.
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.key_bytes != key.size() ||
      header.result_bytes > bytes_max_ ||
      static_cast<uint64_t>(status.st_size) != sizeof(header) + header.key_bytes + header.result_bytes) {
    return false;
  }
  std::string stored(key.size(), '\0');
  if (!ReadAll(file.get(), stored.data(), stored.size()) || stored != key) return false;
  std::vector<std::byte> bytes(header.result_bytes);
  if (!ReadAll(file.get(), bytes.data(), bytes.size())) return false;
  if (Hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) != header.result_hash) return false;
  futimens(file.get(), nullptr);  // used now
  *result = std::move(bytes);
  return true;
}

void CompileCache::Store(std::string_view key, std::span<const std::byte> result) const {
  const uint64_t bytes = sizeof(Header) + key.size() + result.size();
  if (directory_.empty() || bytes > bytes_max_ || !MakeDirectory(directory_)) return;
  Trim(bytes_max_ - bytes);
  const std::string path = PathOf(key);
  std::string temporary = path + ".XXXXXX";
  const UniqueFd file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return;
  const std::string_view text(reinterpret_cast<const char*>(result.data()), result.size());
  Header header{{}, key.size(), result.size(), Hash(text)};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const bool written = WriteAll(file.get(), {reinterpret_cast<const char*>(&header), sizeof(header)}) &&
                       WriteAll(file.get(), key) && WriteAll(file.get(), text);
  if (written && rename(temporary.c_str(), path.c_str()) == 0) return;
  LogDebug("a compiled result of {} bytes could not be kept in {}", result.size(), directory_);
  unlink(temporary.c_str());
}

void CompileCache::Trim(uint64_t bytes_max) const {
  struct Kept {
    timespec used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<Kept> files;
  uint64_t total = 0;
  DIR* const directory = opendir(directory_.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    struct stat status {};
    std::string path = directory_ + "/" + entry->d_name;
    if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    total += static_cast<uint64_t>(status.st_size);
    files.push_back({status.st_mtim, static_cast<uint64_t>(status.st_size), std::move(path)});
  }
  closedir(directory);
  if (total <= bytes_max) return;
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
  });
  for (const Kept& file : files) {
    if (total <= bytes_max) return;
    if (unlink(file.path.c_str()) == 0) total -= file.bytes;
  }
}

}  // namespace tessera
