// tessera-agent: carries each client of its socket to the gateway, over a link of its own. README.md says how it ends. It is two
// processes. The one that was started keeps what cannot be had a second time; its child does the work (protocol/keeper/keeper.h).
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client-stub/agent/options.h"
#include "programs/service_process.h"
#include "protocol/base/clock.h"
#include "protocol/base/hide_memory.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/keeper/keeper.h"
#include "protocol/keeper/keeper_line.h"
#include "protocol/link/connect/connect_link.h"
#include "protocol/link/impaired/impaired_link.h"
#include "protocol/link/link_supply.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/relay_service.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-agent";
// How long a connection to the gateway may take. A program that asks waits longer.
constexpr uint64_t kConnectTimeoutNs = 5'000'000'000;
// Client processes of one job at once. The server has a limit of its own.
constexpr size_t kSessionsMax = 1024;

// A client reads kUnavailable as the end of a server that it had found (client-stub/session/connect.cc). Here there never was
// one.
Status NotFound(const Status& status) {
  const bool unreachable = status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kTimedOut ||
                           status.code() == StatusCode::kProtocolViolation;
  return unreachable ? Status(StatusCode::kNotFound, status.message()) : status;
}

Result<std::unique_ptr<Link>> Connect(const AgentOptions& options, uint64_t deadline_ns) {
  Result<std::unique_ptr<Link>> link = ConnectLink(options.gateway, options.link, deadline_ns);
  if (!link.ok() || !options.impairment) return link;
  return MakeImpairedLink(std::move(*link), *options.impairment);
}

std::unique_ptr<LinkSupply> Reconnect(const AgentOptions& options) {
  return MakeReconnecting([&options](uint64_t deadline_ns) { return Connect(options, deadline_ns); });
}

void CarryOn(Relay& relay, RelaySession& session) {
  const Status why = session.Run(relay);
  LogInfo("a session is over{}{}", why.ok() ? "" : ": ", why.message());
}

// The name of this process' user. Empty where this host knows none.
std::string UserOfThisProcess() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> texts{};
  if (getpwuid_r(geteuid(), &entry, texts.data(), texts.size(), &found) != 0 || found == nullptr) return "";
  return found->pw_name;
}

// What all threads of the process that carries sessions share.
struct Carrier {
  const AgentOptions& options;
  KeeperLine& keeper;
  const std::string user;
};

void Carry(UniqueFd client, RelaySession& session, const Carrier& carrier) {
  // Connects only after the client has spoken: one that only connects costs the other host nothing.
  pollfd spoken = {client.get(), POLLIN, 0};
  poll(&spoken, 1, -1);
  if (session.timed_out()) return LogWarning("turned away a client: it connected and said nothing");
  if (SocketHungUp(client.get())) return;
  session.Within(RelayService::kWelcomeTimeoutNs);
  Result<std::unique_ptr<Link>> connected = Connect(carrier.options, MonotonicNs() + kConnectTimeoutNs);
  if (!connected.ok()) {
    // The hello is taken off the socket first. Closing a socket with an unread message makes the kernel report an error instead
    // of the refusal.
    (void)ReceiveMessage(client.get(), kControlMessageBytesMax, 0).ok();
    Refuse(client.get(), NotFound(connected.status()));
    return LogInfo("no session: {}", connected.status().message());
  }
  const std::shared_ptr<Link> link = std::move(*connected);
  session.Uses(link);
  Result<std::unique_ptr<Relay>> relay =
      Relay::AtClient(std::move(client), link, Reconnect(carrier.options), MonotonicNs() + RelayService::kWelcomeTimeoutNs,
                      &carrier.keeper, carrier.user);
  if (!relay.ok()) {
    const bool violation = relay.status().code() == StatusCode::kProtocolViolation;
    Log(violation ? LogLevel::kWarning : LogLevel::kInfo, "{}: {}", violation ? "turned away a client" : "no session",
        relay.status().message());
  } else if (!session.Establish()) {
    (*relay)->Stop();
    LogWarning("ended a session: {} is the limit", kSessionsMax);
  } else {
    CarryOn(**relay, session);
  }
  session.Uses(nullptr);
}

// The sandbox keeps the machine's root directory. For one of its own an ordinary user needs a user namespace, in which client
// programs of root seem to belong to nobody.
Status EnterAgentSandbox(const AgentOptions& options) {
  const pid_t keeper = getppid();
  SandboxReport report;
  if (options.gateway.scheme == LinkScheme::kUcx) {
    RETURN_IF_ERROR(EnterNetworkSandbox(Service::kAgent, options.sandbox, LibraryDirectories(options.gateway), &report));
  } else {
    RETURN_IF_ERROR(EnterSandbox(ServiceSandbox(Service::kAgent, options.sandbox, false), &report));
  }
  if (!report.protection.empty()) LogDebug("the sandbox of this process: {}", report.protection);
  for (const std::string& gap : report.gaps) LogInfo("the sandbox of this process is not complete: {}", gap);
  // A change of user clears the parent-death signal (prctl(2)), so the keeper may have ended unnoticed meanwhile.
  return getppid() == keeper ? Status::Ok() : Status(StatusCode::kUnavailable, "the process that keeps sessions has ended");
}

// The main function of the process that carries sessions.
int CarrySessions(AgentOptions options) {
  Result<std::unique_ptr<KeeperLine>> keeper = KeeperLine::Open(UniqueFd(options.carry_fd));
  if (!keeper.ok()) return Fail(kName, keeper.status(), kServiceInternal);
  // In the sandbox this process can neither read keys nor connect, so the keeper does both.
  if (DialFor(options.gateway, options.link)) {
    options.link.open_file = [&line = **keeper](const std::string& path) { return line.OpenFile(path); };
    options.link.dial = [&line = **keeper](uint64_t deadline_ns) { return line.Dial(deadline_ns); };
  }
  const UniqueFd owner = (*keeper)->TakeOwner();
  const UniqueFd listener = (*keeper)->TakeListener();
  RelayService service({.sessions_max = kSessionsMax, .owner_fd = owner.get(), .hello_timeout_ns = options.hello_timeout_ns()});
  if (const Status status = service.Prepare(); !status.ok()) return Fail(kName, status, kServiceInternal);
  if (const Status status = PrepareLinks(options.gateway); !status.ok()) LogInfo("{}", status.message());
  const Carrier carrier{options, **keeper, UserOfThisProcess()};
  if (const Status status = EnterAgentSandbox(options); !status.ok()) return Fail(kName, status, kServiceInternal);
  service.Adopt(
      **keeper, [&](const ResumeToken&, const std::string&) { return Reconnect(options); }, CarryOn);
  (*keeper)->SayReady("unix:" + options.listen_path);
  service.Run(
      listener.get(), [&] { return UnixListener::Accept(listener.get()); },
      [&](UniqueFd client, RelaySession& session) { Carry(std::move(client), session, carrier); });
  return kServiceOk;
}

// Gives up what an agent never needs. Where that fails it works all the same.
void GiveUpRights() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) LogDebug("no_new_privs: errno {}", errno);
  if (const Status hidden = HideMemory(); !hidden.ok()) LogDebug("{}", hidden.message());
}

// The main function of the process that was started: it keeps what the other one carries.
int KeepSessions(const AgentOptions& options, std::vector<std::string> arguments) {
  Result<UnixListener> listener = UnixListener::Bind(options.listen_path);
  if (!listener.ok()) return Fail(kName, listener.status(), kServiceCannotListen);
  RaiseDescriptorLimit();  // a session takes some ten, and one for each large pinned allocation of its program
  Keeper keeper({.name = kName,
                 .arguments = std::move(arguments),
                 .listener_fd = listener->fd(),
                 .owner_fd = options.owner_fd,
                 .dial = DialFor(options.gateway, options.link),
                 .files = FilesOf(TlsRole::kClient, options.link)});
  int code = kServiceOk;
  if (const Status prepared = keeper.Prepare(); !prepared.ok()) {
    code = Fail(kName, prepared, kServiceInternal);
  } else {
    Announce(std::string(kName) + ": listening on unix:" + options.listen_path + ", server " + options.gateway.Url());
    LeaveForeground(options);
    code = keeper.Run();
  }
  listener->Close();
  RemoveOwnDirectory(options, options.listen_path);
  return code;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  AgentOptions options;
  if (const int code = ParseAgentOptions(argc, argv, &options); code >= 0) return code;
  // An agent that `tessera run` has started writes among the lines of the program, without times. The process that carries
  // sessions writes to the keeper's pipe, and the keeper adds times.
  SetLogName(kName, options.owner_fd < 0 && options.carry_fd < 0 ? LogTimes::kUnlessTerminal : LogTimes::kNever);
  SetLogLevel(options.log_level);
  GiveUpRights();
  if (options.carry_fd >= 0) EndService(CarrySessions(options));
  return KeepSessions(options, {argv + 1, argv + argc});
}
