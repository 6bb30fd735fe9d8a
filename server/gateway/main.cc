// tessera-gateway: takes each link that arrives to the socket of a tesserad. How it ends stands in README.md.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/link/connect_link.h"
#include "protocol/link/relay.h"
#include "protocol/link/relay_service.h"
#include "protocol/link/returning_links.h"
#include "server/gateway/options.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-gateway";

// What a client asks for, of which the server's process must not hear before there is something to hear.
Result<UniqueFd> Dial(RelaySession& session, const GatewayOptions& options) {
  if (!session.Establish()) {
    return Status(StatusCode::kResourceExhausted, "the gateway has " + std::to_string(options.sessions_max) +
                                                      " sessions, its limit: raise --max-sessions of tessera-gateway");
  }
  session.Within(RelayService::kWelcomeTimeoutNs);
  Result<UniqueFd> server = ConnectUnix(options.server_path);
  if (!server.ok()) {
    LogWarning("the server cannot be reached: {}", server.status().message());
    // kNotFound: to the client this is the same as no gateway at all.
    return Status(StatusCode::kNotFound, "the gateway has no server behind it (" + server.status().message() + ")");
  }
  session.Uses(server->get());
  return server;
}

void Carry(UniqueFd connection, RelaySession& session, LinkListener& listener, ReturningLinks& returning, const GatewayOptions& options) {
  std::string peer = listener.DescribePeer(connection.get());
  const auto turn_away = [&](const Status& why) {
    const bool silent = session.timed_out() || why.code() == StatusCode::kTimedOut;
    LogWarning("turned away {}: {}", peer, silent ? "it connected and said nothing" : why.message());
  };
  Result<AcceptedLink> accepted = listener.Finish(std::move(connection), MonotonicNs() + options.hello_timeout_ns());
  if (!accepted.ok()) return turn_away(accepted.status());
  if (accepted->link == nullptr) return;  // another connection's link has it
  peer = accepted->peer;
  std::shared_ptr<Link> link = std::move(accepted->link);
  session.Uses(link);
  Result<std::unique_ptr<Relay>> relay =
      Relay::AtServer([&] { return Dial(session, options); }, std::exchange(link, nullptr), &returning, accepted->name,
                      MonotonicNs() + options.hello_timeout_ns() + RelayService::kWelcomeTimeoutNs);
  if (!relay.ok()) {
    // A question that was answered, or a peer that left, is no event.
    if (relay.status().code() == StatusCode::kUnavailable && !session.timed_out()) {
      LogDebug("no session for {}: {}", peer, relay.status().message());
    } else {
      turn_away(relay.status());
    }
  } else {
    LogInfo("a session of {} has begun", peer);
    const Status why = session.Run(**relay);
    LogInfo("a session of {} is over{}{}", peer, why.ok() ? "" : ": ", why.message());
  }
  session.Uses(nullptr);
}

void SayReady(const GatewayOptions& options, const std::string& url) {
  if (options.ready_fd < 0) {
    printf("%s: listening on %s, server unix:%s\n", kName, url.c_str(), options.server_path.c_str());
    fflush(stdout);
    return;
  }
  if (write(options.ready_fd, url.data(), url.size()) < 0) LogWarning("nobody waits for this gateway: errno {}", errno);
  close(options.ready_fd);
}

int Run(const GatewayOptions& options) {
  RelayService service({.sessions_max = options.sessions_max, .hello_timeout_ns = options.hello_timeout_ns()});
  if (const Status status = service.Prepare(); !status.ok()) return Fail(kName, status, kServiceInternal);
  if (const Status status = PrepareLinks(options.listen); !status.ok()) return Fail(kName, status, kServiceCannotListen);
  Result<std::unique_ptr<LinkListener>> bound = ListenForLinks(options.listen, options.link);
  if (!bound.ok()) return Fail(kName, bound.status(), kServiceCannotListen);
  LinkListener& listener = **bound;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  RaiseDescriptorLimit();  // a session takes some ten, and every large pinned allocation of its client one while it is passed on
  ReturningLinks returning(options.resume_grace_s * uint64_t{1'000'000'000});
  SayReady(options, listener.address().Url());
  service.Run(listener.fd(), [&] { return listener.Accept(); },
              [&](UniqueFd connection, RelaySession& session) { Carry(std::move(connection), session, listener, returning, options); });
  return kServiceOk;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  GatewayOptions options;
  if (const int code = ParseGatewayOptions(argc, argv, &options); code >= 0) return code;
  if (options.parent_pid != 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent_pid) return kServiceOk;  // it ended before the line above
  }
  SetLogName(kName);
  SetLogLevel(options.log_level);
  return Run(options);
}
