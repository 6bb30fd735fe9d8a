// tessera-gateway: connects each link that arrives to the socket of a tesserad. README.md lists its exit codes. It is two
// processes. The one that was started keeps what its child, which does the work, could not get again (protocol/keeper/keeper.h).
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "programs/service_process.h"
#include "protocol/base/clock.h"
#include "protocol/base/few_heaps.h"
#include "protocol/base/host_memory.h"
#include "protocol/base/log.h"
#include "protocol/keeper/keeper.h"
#include "protocol/keeper/keeper_line.h"
#include "protocol/link/connect/connect_link.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/relay_service.h"
#include "protocol/relay/returning_links.h"
#include "server/gateway/options.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-gateway";

// What the threads of all sessions share, in the process that carries sessions.
struct Carrier {
  const GatewayOptions& options;
  KeeperLine& keeper;
  LinkListener& listener;
  ReturningLinks returning;
};

// The most connections to the server at the same time. If the server counts the sessions, its limit may rise, and further
// connections wait there for their turn: so then there may be as many as descriptors allow.
size_t ConnectionsMax(const GatewayOptions& options) {
  constexpr rlim_t kDescriptors = 16;  // of one connection; a few more than it has
  constexpr rlim_t kMost = 8192;       // more than the sessions of a server and those that wait there
  rlimit limit{};
  if (!options.server_counts || getrlimit(RLIMIT_NOFILE, &limit) != 0) return options.sessions_max;
  return std::max<size_t>(options.sessions_max, std::min(limit.rlim_cur / kDescriptors, kMost));
}

// The most segment bytes of all sessions: a control group that has a limit ends its processes beyond that, and others need a
// part. A machine has more than its sessions, and may swap.
uint64_t SegmentBytesInAll() {
  const uint64_t group = ControlGroupMemoryLimit();
  return group == UINT64_MAX ? group : group / 4 * 3;
}

// The most of one session: at most this machine's memory, or half of a control group's, and few enough that all sessions together
// find addresses (64 of the 128 TiB).
uint64_t SegmentBytesMax(uint32_t sessions_max) {
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min({memory, ControlGroupMemoryLimit() / 2, (uint64_t{64} << 40) / std::max(sessions_max, 1U)});
}

// Connects to the server, for a client that has sent its request, whose channel needs so many bytes. The server must not hear of
// a client before that.
Result<UniqueFd> Dial(RelaySession& session, Carrier& carrier, uint64_t bytes) {
  if (!session.Establish()) {
    const std::string most = "the gateway has " + std::to_string(ConnectionsMax(carrier.options));
    return Status(StatusCode::kResourceExhausted,
                  carrier.options.server_counts
                      ? most + " connections, as many as it has descriptors for: raise the limit of tesserad (ulimit -n)"
                      : most + " sessions, its limit: raise --max-sessions of tessera-gateway");
  }
  RETURN_IF_ERROR(session.TakeMemory(bytes));
  session.Within(RelayService::kWelcomeTimeoutNs);
  Result<UniqueFd> server = carrier.keeper.Dial();
  if (!server.ok()) {
    LogWarning("the server cannot be reached: {}", server.status().message());
    // kNotFound: for the client this is the same as no gateway at all.
    return Status(StatusCode::kNotFound, "the gateway has no server behind it (" + server.status().message() + ")");
  }
  session.Uses(server->get());
  return server;
}

void CarryOn(Relay& relay, RelaySession& session, const std::string& peer) {
  const Status why = session.Run(relay);
  LogInfo("a session of {} is over{}{}", peer, why.ok() ? "" : ": ", why.message());
}

void Carry(UniqueFd connection, RelaySession& session, Carrier& carrier) {
  std::string peer = carrier.listener.DescribePeer(connection.get());
  const std::string host = peer.substr(0, peer.rfind(':'));
  const auto turn_away = [&](const Status& why) {
    const bool slow = session.timed_out() || why.code() == StatusCode::kTimedOut;
    LogStranger("turned away {}: {}", peer,
                session.made_room() ? "it had not begun, and more connect than have a place"
                : slow              ? "it connected and said nothing, or too little"
                                    : why.message());
  };
  const uint64_t hello_timeout_ns = carrier.options.hello_timeout_ns();
  Result<AcceptedLink> accepted =
      carrier.listener.Finish(std::move(connection), MonotonicNs() + hello_timeout_ns,
                              {.understood = [&] { session.BeUnderstood(); }, .proved = [&] { session.Prove(); }});
  if (!accepted.ok()) return turn_away(accepted.status());
  if (accepted->link == nullptr) return;  // it belongs to the link of another connection
  peer = accepted->peer;
  std::shared_ptr<Link> link = std::move(accepted->link);
  session.Uses(link);
  Result<std::unique_ptr<Relay>> relay = Relay::AtServer(
      [&](uint64_t bytes) { return Dial(session, carrier, bytes); }, std::exchange(link, nullptr), &carrier.returning,
      accepted->name, MonotonicNs() + hello_timeout_ns + RelayService::kWelcomeTimeoutNs, &carrier.keeper, host);
  if (!relay.ok()) {
    // An answered question, or a peer that left, is not worth more than a debug line.
    if (relay.status().code() == StatusCode::kUnavailable && !session.timed_out()) {
      LogDebug("no session for {}: {}", peer, relay.status().message());
    } else {
      turn_away(relay.status());
    }
  } else {
    LogInfo("a session of {} has begun", peer);
    CarryOn(**relay, session, peer);
  }
  session.Uses(nullptr);
}

// UCX starts threads with the first listener, and opens devices and makes connections later. So the process needs another
// sandbox, and enters it before it listens.
bool UsesUcx(const GatewayOptions& options) { return options.listen.scheme == LinkScheme::kUcx; }

Status EnterGatewaySandbox(const GatewayOptions& options) {
  const pid_t keeper = getppid();
  if (UsesUcx(options)) {
    RETURN_IF_ERROR(EnterNetworkSandbox(Service::kGateway, options.sandbox, LibraryDirectories(options.listen)));
  } else {
    RETURN_IF_ERROR(EnterSandbox(ServiceSandbox(Service::kGateway, options.sandbox, options.private_root)));
  }
  // A change of the user clears the parent-death signal (prctl(2)), so this process could outlive its keeper.
  return getppid() == keeper ? Status::Ok() : Status(StatusCode::kUnavailable, "the process that keeps sessions has ended");
}

// Runs the process that carries sessions. Returns an exit code.
int CarrySessions(GatewayOptions options) {
  UseFewHeaps();  // each stranger has a thread; what a session moves is not on a heap
  Result<std::unique_ptr<KeeperLine>> keeper = KeeperLine::Open(UniqueFd(options.carry_fd));
  if (!keeper.ok()) return Fail(kName, keeper.status(), kServiceInternal);
  // For the key files, which this process could not read again in its sandbox.
  options.link.open_file = [&line = **keeper](const std::string& path) { return line.OpenFile(path); };
  const LinkListener* described = nullptr;
  RelayService service({.sessions_max = ConnectionsMax(options),
                        .hello_timeout_ns = options.hello_timeout_ns(),
                        .strangers = StrangerBounds::OfThisProcess(),
                        .segment_bytes_max = SegmentBytesMax(options.sessions_max),
                        .segment_bytes_in_all = SegmentBytesInAll(),
                        .describe = [&](int connection) { return described->DescribePeer(connection); }});
  if (const Status status = service.Prepare(); !status.ok()) return Fail(kName, status, kServiceInternal);
  if (const Status status = PrepareLinks(options.listen); !status.ok()) return Fail(kName, status, kServiceCannotListen);
  // The address of the previous process, if that made its socket itself: its port has to stay the same.
  const Result<LinkAddress> before = LinkAddress::Parse((*keeper)->listened());
  const LinkAddress& address = before.ok() ? before.value() : options.listen;
  if (UsesUcx(options)) {
    if (const Status status = EnterGatewaySandbox(options); !status.ok()) return Fail(kName, status, kServiceInternal);
  }
  Result<std::unique_ptr<LinkListener>> listener = ListenForLinks(address, options.link, (*keeper)->TakeListener());
  if (!listener.ok()) return Fail(kName, listener.status(), kServiceCannotListen);
  described = listener->get();
  if (!UsesUcx(options)) {
    if (const Status status = EnterGatewaySandbox(options); !status.ok()) return Fail(kName, status, kServiceInternal);
  }
  Carrier carrier{options, **keeper, **listener, ReturningLinks(options.resume_grace_s * uint64_t{1'000'000'000})};
  // Takes over all kept sessions before the first link can come back.
  service.Adopt(
      **keeper, [&](const ResumeToken& token, const std::string& peer) { return carrier.returning.Readmit(token, peer); },
      [](Relay& relay, RelaySession& session) { CarryOn(relay, session, "the process before this one"); });
  (*keeper)->SayReady((*listener)->address().Url());
  service.Run((*listener)->fd(), [&] { return (*listener)->Accept(); },
              [&](UniqueFd connection, RelaySession& session) { Carry(std::move(connection), session, carrier); });
  return kServiceOk;
}

void SayReady(const GatewayOptions& options, const std::string& url) {
  std::string who = WhoMayConnect(options.listen);
  if (!who.empty()) who += " may connect to " + url;
  if (options.ready_fd < 0) {
    const std::string end = who.empty() ? "" : "; " + who;
    return Announce(std::string(kName) + ": listening on " + url + ", server unix:" + options.server_path + end);
  }
  const std::string line = url + "\n" + TESSERA_VERSION + "\n" + who;
  if (write(options.ready_fd, line.data(), line.size()) < 0) LogWarning("nobody waits for this gateway: errno {}", errno);
  close(options.ready_fd);
}

// Runs the process that was started, which keeps what the other one carries. Returns an exit code.
int KeepSessions(const GatewayOptions& options, std::vector<std::string> arguments) {
  Result<UniqueFd> listener = BindForLinks(options.listen, options.link);
  if (!listener.ok()) return Fail(kName, listener.status(), kServiceCannotListen);
  Keeper keeper({.name = kName,
                 .arguments = std::move(arguments),
                 .listener_fd = listener->get(),
                 .server_path = options.server_path,
                 .files = FilesOf(TlsRole::kServer, options.link),
                 .ready = [&](const std::string& where) { SayReady(options, where); }});
  if (const Status status = keeper.Prepare(); !status.ok()) return Fail(kName, status, kServiceInternal);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  RaiseDescriptorLimit();  // a session takes some ten descriptors, and one for each large pinned allocation of its client
  return keeper.Run();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  GatewayOptions options;
  if (const int code = ParseGatewayOptions(argc, argv, &options); code >= 0) return code;
  if (options.parent_pid != 0 && options.carry_fd < 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent_pid) return kServiceOk;  // the parent ended before the line above
  }
  // The process that started this one adds the time to its lines.
  SetLogName(kName, options.parent_pid != 0 || options.carry_fd >= 0 ? LogTimes::kNever : LogTimes::kUnlessTerminal);
  SetLogLevel(options.log_level);
  if (options.carry_fd >= 0) EndService(CarrySessions(options));
  return KeepSessions(options, {argv + 1, argv + argc});
}
