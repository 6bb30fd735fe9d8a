#include "tests/support/mirror.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <tuple>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr uint64_t kHandshakeTimeoutNs = 60'000'000'000;

}  // namespace

std::unique_ptr<Mirror> Mirror::Start(UniqueFd client_socket, UniqueFd server_socket, const std::optional<Impairment>& impairment,
                                      Links links, uint64_t segment_bytes_max, SegmentBudget* budget) {
  std::unique_ptr<Mirror> mirror(new Mirror(segment_bytes_max, budget));
  std::tie(mirror->links_[0], mirror->links_[1]) = std::move(links);
  UniqueFd sockets[2] = {std::move(client_socket), std::move(server_socket)};
  for (int i = 0; i < 2; ++i) {
    Link* link = mirror->links_[i].get();
    if (impairment) {
      mirror->impaired_[i] = MakeImpairedLink(*link, *impairment);
      link = mirror->impaired_[i].get();
    }
    mirror->ends_[i].reset(fcntl(sockets[i].get(), F_DUPFD_CLOEXEC, 0));
    mirror->threads_[i] = std::thread([mirror = mirror.get(), i, link, socket = std::move(sockets[i])]() mutable {
      mirror->Run(i == 0, std::move(socket), *link);
    });
  }
  return mirror;
}

Mirror::~Mirror() {
  for (const UniqueFd& end : ends_) shutdown(end.get(), SHUT_RDWR);
  for (int i = 0; i < 2; ++i) (impaired_[i] ? impaired_[i] : links_[i])->Close();
  for (std::thread& thread : threads_) thread.join();
}

void Mirror::Run(bool client, UniqueFd socket, Link& link) {
  const uint64_t deadline_ns = MonotonicNs() + kHandshakeTimeoutNs;
  Result<std::unique_ptr<Relay>> relay =
      client ? Relay::AtClient(std::move(socket), link, deadline_ns) : Relay::AtServer(std::move(socket), link, deadline_ns);
  if (relay.ok()) {
    (*relay)->CountReceived(client ? &to_client_ : &to_server_);
    if (!client) (*relay)->BoundSegments(segment_bytes_max_, budget_);
    const Status why = (*relay)->Run();
    if (!why.ok()) LogDebug("mirror: {} side: {}", client ? "client's" : "server's", why.message());
  } else {
    LogDebug("mirror: no session on the {} side: {}", client ? "client's" : "server's", relay.status().message());
    link.Close();
  }
  shutdown(ends_[client ? 0 : 1].get(), SHUT_RDWR);
  running_.fetch_sub(1);
}

}  // namespace tessera
