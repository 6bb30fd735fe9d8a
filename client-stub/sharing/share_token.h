// The forms in which the application holds what another process shares: 64 opaque bytes, or a file descriptor. Both carry a
// token that the server knows (server/shares/README.md).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

using TokenBytes = std::array<std::byte, 32>;

// False when a reply's bytes are not a token's.
bool TokenOf(std::span<const std::byte> bytes, TokenBytes* token);

// What 64 bytes stand for.
enum class IpcForm : uint64_t {
  kMemory = 0x4d43504941525354,  // "TSRAIPCM"
  kEvent = 0x4543504941525354,   // "TSRAIPCE"
};
void WriteIpcHandle(IpcForm form, const TokenBytes& token, std::span<char, 64> handle);
// Nothing for bytes that this function's counterpart did not write.
std::optional<TokenBytes> ReadIpcHandle(IpcForm form, std::span<const char, 64> handle);

// Descriptors given to the application. Each is one end of a socket pair in which the token lies, to be peeked at by whatever
// process got the descriptor; when the last copy of it is closed the other end, kept here, hangs up. Any thread.
class SharedDescriptors {
 public:
  // A new descriptor (close-on-exec) that carries the token; -1 with errno.
  int Make(const TokenBytes& token) EXCLUDES(mutex_);
  // Forgets, and returns, the tokens whose descriptors are closed everywhere.
  std::vector<TokenBytes> TakeClosed() EXCLUDES(mutex_);
  // The token that a descriptor carries; nothing for any other descriptor.
  static std::optional<TokenBytes> Read(int fd);

 private:
  struct Kept {
    TokenBytes token;
    UniqueFd end;
  };
  Mutex mutex_;
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
};

// Tells the server which shares nobody can open any more: calls that share or release memory do so first.
void TellClosedDescriptors();

// Of this process.
inline SharedDescriptors& Descriptors() { return PartOfProcess<SharedDescriptors>::Get(); }

}  // namespace tessera
