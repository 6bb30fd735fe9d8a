// tessera-agent: carries each client of its socket over a link of its own to the gateway. How it ends stands in README.md.
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include <memory>

#include "client-stub/agent/options.h"
#include "protocol/base/background.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/link/connect_link.h"
#include "protocol/link/impaired_link.h"
#include "protocol/link/link_supply.h"
#include "protocol/link/relay.h"
#include "protocol/link/relay_service.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-agent";
// For a connection to the gateway to come about. A program that asks waits longer.
constexpr uint64_t kConnectTimeoutNs = 5'000'000'000;
// Client processes of one job at once; the server has a limit of its own.
constexpr size_t kSessionsMax = 1024;

// A client reads kUnavailable as the end of a server that it had found (client-stub/connect.cc). Here there was none.
Status NotFound(const Status& status) {
  const bool unreachable = status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kTimedOut ||
                           status.code() == StatusCode::kProtocolViolation;
  return unreachable ? Status(StatusCode::kNotFound, status.message()) : status;
}

void Carry(UniqueFd client, RelaySession& session, const AgentOptions& options) {
  // Not before it has spoken: one that only connects costs the other host nothing.
  pollfd spoken = {client.get(), POLLIN, 0};
  poll(&spoken, 1, -1);
  if (session.timed_out()) return LogWarning("turned away a client: it connected and said nothing");
  if (SocketHungUp(client.get())) return;
  session.Within(RelayService::kWelcomeTimeoutNs);
  const auto connect = [&options](uint64_t deadline_ns) -> Result<std::unique_ptr<Link>> {
    Result<std::unique_ptr<Link>> link = ConnectLink(options.gateway, options.link, deadline_ns);
    if (!link.ok() || !options.impairment) return link;
    return MakeImpairedLink(std::move(*link), *options.impairment);
  };
  Result<std::unique_ptr<Link>> connected = connect(MonotonicNs() + kConnectTimeoutNs);
  if (!connected.ok()) {
    // Taken first: closing a socket with an unread message makes the kernel report an error instead of the refusal.
    (void)ReceiveMessage(client.get(), kControlMessageBytesMax, 0).ok();
    Refuse(client.get(), NotFound(connected.status()));
    return LogInfo("no session: {}", connected.status().message());
  }
  const std::shared_ptr<Link> link = std::move(*connected);
  session.Uses(link);
  Result<std::unique_ptr<Relay>> relay =
      Relay::AtClient(std::move(client), link, MakeReconnecting(connect), MonotonicNs() + RelayService::kWelcomeTimeoutNs);
  if (!relay.ok()) {
    const bool violation = relay.status().code() == StatusCode::kProtocolViolation;
    Log(violation ? LogLevel::kWarning : LogLevel::kInfo, "{}: {}", violation ? "turned away a client" : "no session",
        relay.status().message());
  } else if (!session.Establish()) {
    (*relay)->Stop();
    LogWarning("ended a session: {} is the limit", kSessionsMax);
  } else {
    const Status why = session.Run(**relay);
    LogInfo("a session is over{}{}", why.ok() ? "" : ": ", why.message());
  }
  session.Uses(nullptr);
}

int Run(const AgentOptions& options) {
  RelayService service(
      {.sessions_max = kSessionsMax, .owner_fd = options.owner_fd, .hello_timeout_ns = options.hello_timeout_ns()});
  if (const Status status = service.Prepare(); !status.ok()) return Fail(kName, status, kServiceInternal);
  if (const Status status = PrepareLinks(options.gateway); !status.ok()) LogInfo("{}", status.message());
  Result<UnixListener> listener = UnixListener::Bind(options.listen_path);
  if (!listener.ok()) return Fail(kName, listener.status(), kServiceCannotListen);
  printf("%s: listening on unix:%s, server %s\n", kName, options.listen_path.c_str(), options.gateway.Url().c_str());
  fflush(stdout);
  if (options.owner_fd >= 0 && !GoToBackground()) LogWarning("the agent stays in the foreground: errno {}", errno);
  service.Run(listener->fd(), [&] { return listener->Accept(); },
              [&](UniqueFd client, RelaySession& session) { Carry(std::move(client), session, options); });
  listener->Close();
  RemoveOwnDirectory(options, options.listen_path);
  return kServiceOk;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  AgentOptions options;
  if (const int code = ParseAgentOptions(argc, argv, &options); code >= 0) return code;
  SetLogName(kName);
  SetLogLevel(options.log_level);
  return Run(options);
}
