// The two forms in which the application holds what another process shares: 64 opaque bytes, or a file descriptor. Both carry a
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

// Copies the bytes of a reply to `*token`. False when they have not the size of a token.
bool TokenOf(std::span<const std::byte> bytes, TokenBytes* token);

// What the 64 bytes stand for.
enum class IpcForm : uint64_t {
  kMemory = 0x4d43504941525354,  // "TSRAIPCM"
  kEvent = 0x4543504941525354,   // "TSRAIPCE"
};
void WriteIpcHandle(IpcForm form, const TokenBytes& token, std::span<char, 64> handle);
// The token in the 64 bytes. Nothing when WriteIpcHandle() did not write them with the same form.
std::optional<TokenBytes> ReadIpcHandle(IpcForm form, std::span<const char, 64> handle);

// The descriptors that were given to the application. Each is one end of a socket pair in which the token lies. Whatever process
// got the descriptor peeks at the token. The other end is kept here; it hangs up when the last copy of the descriptor is closed.
// Any thread.
class SharedDescriptors {
 public:
  // Makes a descriptor (close-on-exec) that carries the token. -1 with errno on failure.
  int Make(const TokenBytes& token) EXCLUDES(mutex_);
  // Forgets the tokens whose descriptors are closed in every process, and returns them.
  std::vector<TokenBytes> TakeClosed() EXCLUDES(mutex_);
  // The token that `fd` carries; it stays there. Nothing for any other descriptor.
  static std::optional<TokenBytes> Read(int fd);

 private:
  struct Kept {
    TokenBytes token;
    UniqueFd end;
  };
  Mutex mutex_;
  std::vector<Kept> kept_ GUARDED_BY(mutex_);
};

// Tells the server which shares nobody can open any more. Calls that share, allocate or release memory do this first.
void TellClosedDescriptors();

// The descriptors of this process.
inline SharedDescriptors& Descriptors() { return PartOfProcess<SharedDescriptors>::Get(); }

}  // namespace tessera
