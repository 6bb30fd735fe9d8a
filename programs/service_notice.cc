#include "programs/service_notice.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "protocol/base/clock.h"

namespace tessera {
namespace {

std::string TakeVariable(const char* name) {
  const char* const value = getenv(name);
  const std::string taken = value == nullptr ? "" : value;
  unsetenv(name);
  return taken;
}

uint64_t NumberOf(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// A path, or a name that no file has, with '@' in front.
UniqueFd Connect(const std::string& address) {
  sockaddr_un name{};
  if (address.size() < 2 || address.size() >= sizeof(name.sun_path) || (address[0] != '/' && address[0] != '@')) return {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.data(), address.size());
  if (address[0] == '@') name.sun_path[0] = '\0';
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const socklen_t bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  if (!socket.valid() || connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0) return {};
  return socket;
}

std::string OneLine(std::string text) {
  for (char& letter : text) {
    if (letter == '\n') letter = ' ';
  }
  return "\nSTATUS=" + text;
}

}  // namespace

ServiceNotice ServiceNotice::Take() {
  ServiceNotice notice;
  notice.socket_ = Connect(TakeVariable("NOTIFY_SOCKET"));
  const uint64_t period_us = NumberOf(TakeVariable("WATCHDOG_USEC"));
  const std::string pid = TakeVariable("WATCHDOG_PID");
  const bool is_meant = pid.empty() || NumberOf(pid) == static_cast<uint64_t>(getpid());
  if (notice.wanted() && is_meant && period_us > 0 && period_us < UINT64_MAX / 1'000) {
    notice.period_ns_ = period_us * 1'000 / 2;
    notice.next_ns_ = 0;
  }
  return notice;
}

void ServiceNotice::Ready(const std::string& status) { Send("READY=1" + OneLine(status)); }
void ServiceNotice::Status(const std::string& status) { Send(OneLine(status).substr(1)); }
// The time is what tells it from one before (Type=notify-reload).
void ServiceNotice::Reloading() { Send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(MonotonicNs() / 1'000)); }
void ServiceNotice::Reloaded() { Send("READY=1"); }
void ServiceNotice::Stopping(const std::string& status) { Send("STOPPING=1" + OneLine(status)); }

void ServiceNotice::Beat(uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + period_ns_;
  Send("WATCHDOG=1");
}

void ServiceNotice::Send(const std::string& text) const {
  if (!wanted()) return;
  (void)!send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace tessera
