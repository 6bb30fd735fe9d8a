#include "client-stub/sharing/share_token.h"

#include <sys/poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// The message that lies in the socket. The mark tells our descriptors from others.
struct Carried {
  static constexpr uint64_t kMark = 0x444641525354;  // "TSRAFD"
  uint64_t mark = kMark;
  TokenBytes token{};
};

struct IpcBytes {
  uint64_t form = 0;
  TokenBytes token{};
  std::array<std::byte, 24> zero{};
};
static_assert(sizeof(IpcBytes) == 64);

}  // namespace

bool TokenOf(std::span<const std::byte> bytes, TokenBytes* token) {
  if (bytes.size() != token->size()) return false;
  std::copy(bytes.begin(), bytes.end(), token->begin());
  return true;
}

void WriteIpcHandle(IpcForm form, const TokenBytes& token, std::span<char, 64> handle) {
  IpcBytes bytes;
  bytes.form = static_cast<uint64_t>(form);
  bytes.token = token;
  std::memcpy(handle.data(), &bytes, sizeof(bytes));
}

std::optional<TokenBytes> ReadIpcHandle(IpcForm form, std::span<const char, 64> handle) {
  IpcBytes bytes;
  std::memcpy(&bytes, handle.data(), sizeof(bytes));
  if (bytes.form != static_cast<uint64_t>(form) || bytes.zero != decltype(bytes.zero){}) return std::nullopt;
  return bytes.token;
}

int SharedDescriptors::Make(const TokenBytes& token) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  UniqueFd kept(ends[0]), given(ends[1]);
  Carried carried;
  carried.token = token;
  if (send(kept.get(), &carried, sizeof(carried), MSG_NOSIGNAL) != sizeof(carried)) return -1;
  MutexLock lock(mutex_);
  kept_.push_back(Kept{token, std::move(kept)});
  return given.release();
}

std::vector<TokenBytes> SharedDescriptors::TakeClosed() {
  std::vector<TokenBytes> closed;
  MutexLock lock(mutex_);
  std::vector<pollfd> states;
  for (const Kept& kept : kept_) states.push_back({kept.end.get(), 0, 0});
  if (states.empty() || poll(states.data(), states.size(), 0) <= 0) return closed;
  size_t place = 0;
  std::erase_if(kept_, [&](const Kept& kept) {
    if ((states[place++].revents & POLLHUP) == 0) return false;
    closed.push_back(kept.token);
    return true;
  });
  return closed;
}

std::optional<TokenBytes> SharedDescriptors::Read(int fd) {
  Carried carried;
  const ssize_t bytes = recv(fd, &carried, sizeof(carried), MSG_PEEK | MSG_DONTWAIT);
  if (bytes != sizeof(carried) || carried.mark != Carried::kMark) return std::nullopt;
  return carried.token;
}

}  // namespace tessera
