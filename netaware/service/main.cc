// tessera-placer: wires the parts. What it prints and how it ends stands in README.md. It is two processes: the one that was
// started enters a sandbox, and its child opens files for it (protocol/keeper/helper.h).
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "netaware/service/admin_calls.h"
#include "netaware/service/certificate_signer.h"
#include "netaware/service/confinement.h"
#include "netaware/service/event_calls.h"
#include "netaware/service/identity_calls.h"
#include "netaware/service/node_calls.h"
#include "netaware/service/options.h"
#include "netaware/service/placement_calls.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "netaware/service/ticket_signer_of.h"
#include "netaware/store/memory_store.h"
#include "netaware/store/sqlite_store.h"
#include "programs/default_socket.h"
#include "programs/service_notice.h"
#include "programs/service_process.h"
#include "protocol/base/clock.h"
#include "protocol/base/host_digest.h"
#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/link/link_address.h"
#include "protocol/link/tcp/tcp_link.h"
#include "protocol/link/tls/tls_identity.h"
#include "protocol/rpc/rpc_front.h"
#include "protocol/rpc/rpc_lanes.h"
#include "protocol/rpc/rpc_memory.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-placer";
// Any user of this host may ask: the kernel says who it is.
constexpr SocketAccess kAnybody{.mode = 0666, .group = std::nullopt};
// Of what calls take, beside what is kept for servers and grants.
constexpr size_t kCallsBytesMax = size_t{64} << 20;

// As many as the descriptors of this process allow. A user's connection takes one, one by TLS three: six for each of usual.in_all
// with those of the trusted. A seventh, and 640, stay for newcomers, files and gRPC.
RpcConnections::Bounds ConnectionBounds() {
  constexpr size_t kOthers = 640, kUsualMax = 4'096, kOfHolderMax = 1'024;
  rlimit limit{};
  const size_t all = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min<rlim_t>(limit.rlim_cur, 1 << 20) : 1'024;
  const size_t usual = std::clamp<size_t>((all - std::min(all, kOthers)) / 7, 16, kUsualMax);
  return {.usual = {.of_holder = std::min(usual, kOfHolderMax), .in_all = usual},
          .trusted = {.of_holder = std::min(usual / 2, kOfHolderMax), .in_all = usual / 2}};
}

RpcBounds CallBounds(Standing standing) {
  RpcBounds bounds{.message_bytes = 256 * 1024, .calls_of_connection = 64};
  if (standing == Standing::kNobody) {
    // He may ask who he is. What he begins and does not end is over soon.
    bounds.message_bytes = 16 * 1024;
    bounds.calls_of_connection = 4;
    bounds.life_ms = 10'000;
    bounds.buffer_bytes = size_t{2} << 20;
  }
  return bounds;
}

Result<std::unique_ptr<Store>> OpenStore(const PlacerOptions& options) {
  if (options.store_path.empty()) return MakeMemoryStore();
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::path(options.store_path).parent_path();
  if (!directory.empty() && std::filesystem::create_directories(directory, error))
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  return OpenSqliteStore(options.store_path);
}

// Where it listens; bound before anything else begins.
struct Listeners {
  std::vector<UnixListener> users;
  std::vector<TcpListener> tls;
};

Result<Listeners> Bind(const PlacerOptions& options) {
  Listeners listeners;
  for (const std::string& path : options.unix_paths) {
    if (path == UserSocketPath(DefaultSocket::kPlacer)) RETURN_IF_ERROR(MakeSocketDirectory(path, std::nullopt));
    Result<UnixListener> bound = UnixListener::Bind(path, kAnybody, SocketKind::kBytes);
    if (!bound.ok()) return bound.status();
    listeners.users.push_back(std::move(*bound));
  }
  for (const std::string& url : options.tls_urls) {
    Result<LinkAddress> address = LinkAddress::Parse(url);
    if (!address.ok()) return address.status();
    Result<TcpListener> bound = TcpListener::Bind(*address, true);  // nobody comes without a certificate
    if (!bound.ok()) return bound.status();
    listeners.tls.push_back(std::move(*bound));
  }
  return listeners;
}

// Null: nobody comes by TLS.
Result<std::unique_ptr<TlsIdentityKeeper>> ReadKeys(const PlacerOptions& options, HelperLine& helper) {
  if (options.tls_urls.empty()) return std::unique_ptr<TlsIdentityKeeper>();
  LinkOptions link = options.link;
  link.open_file = [&helper](const std::string& path) { return helper.OpenFile(path); };
  return TlsIdentityKeeper::Make(TlsRole::kServer, link, "h2");
}

// The addresses with commas between them.
Result<std::string> Serve(Listeners& listeners, std::unique_ptr<TlsIdentityKeeper> keys, RpcFront& front) {
  std::string where;
  for (UnixListener& users : listeners.users) {
    where += (where.empty() ? "" : ", ") + ("unix:" + users.path());
    const int fd = dup(users.fd());
    if (fd < 0) return Status::FromErrno("cannot keep a socket", errno);
    RETURN_IF_ERROR(front.Listen(UniqueFd(fd)));
  }
  for (TcpListener& tls : listeners.tls) {
    where += (where.empty() ? "" : ", ") + tls.address().Url();
    const Result<TlsFront*> listening = front.ListenByTls(tls.Release(), keys->Current(), "the placer");
    if (!listening.ok()) return listening.status();
  }
  if (keys != nullptr) RETURN_IF_ERROR(front.Follow(std::move(keys)));
  return where;
}

// In a thread that ends with the process, as do the others of what it has.
Status BoundMemory(RpcConnections& connections, const PlacerLoop& loop) {
  try {
    std::thread([&connections, &loop] {
      RpcMemory(connections, "the placer", {.bytes_max = kCallsBytesMax, .others = [&loop] { return loop.kept_bytes(); }}).Run();
    }).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread", error.code().value());
  }
  return Status::Ok();
}

void NotePolicy(PlacerLoop& loop, const std::string& path, const Status& status) {
  AuditRecord record{.actor = std::string(AuditRecord::kPlacer), .action = "policy", .object = path};
  if (!status.ok()) {
    record.outcome = "failed";
    record.text = status.message();
  }
  loop.Post([record](PlacerCore& core, int64_t now_ms) { core.Note(record, now_ms); });
}

// Waits for a signal that ends the placer: which. `notice` hears meanwhile that the loop that decides does what is posted to it.
int AwaitEnd(const sigset_t& ends, PlacerLoop& loop, ServiceNotice& notice) {
  const auto alive = std::make_shared<std::atomic<bool>>(true);  // the loop may set it after this has returned
  for (;;) {
    if (notice.has_watchdog() && MonotonicNs() >= notice.next_ns() && alive->exchange(false)) {
      notice.Beat(MonotonicNs());
      loop.Post([alive](PlacerCore&, int64_t) { *alive = true; });
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = 100'000'000};
    const int number = notice.has_watchdog() ? sigtimedwait(&ends, nullptr, &pause) : sigwaitinfo(&ends, nullptr);
    if (number > 0) return number;
  }
}

int Run(const PlacerOptions& options) {
  ServiceNotice notice = ServiceNotice::Take();
  RaiseDescriptorLimit();  // a connection takes up to three
  signal(SIGPIPE, SIG_IGN);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGCHLD);               // of the helper, this process's only child
  sigprocmask(SIG_BLOCK, &ends, nullptr);  // before the first thread
  HelperLine* line = nullptr;
  Result<std::unique_ptr<RolesFile>> roles = RolesFile::Open(options.policy_path, [&line](const std::string& path) {
    return line != nullptr ? line->OpenFile(path) : OpenSmallFile(path);
  });
  if (!roles.ok()) return Fail(kName, roles.status(), kServiceCannotListen);
  Result<Listeners> listeners = Bind(options);
  if (!listeners.ok()) return Fail(kName, listeners.status(), kServiceCannotListen);
  Result<std::unique_ptr<HelperLine>> helper = StartPlacerHelper(options, listeners->users);
  if (!helper.ok()) return Fail(kName, helper.status(), kServiceInternal);
  line = helper->get();
  Result<std::unique_ptr<TlsIdentityKeeper>> keys = ReadKeys(options, *line);
  if (!keys.ok()) return Fail(kName, keys.status(), kServiceCannotListen);
  std::unique_ptr<CertificateSigner> certificates;
  if (!options.sign_with.empty()) {
    Result<std::unique_ptr<CertificateSigner>> opened = CertificateSigner::Open(options.sign_with, options.sign_days);
    if (!opened.ok()) return Fail(kName, opened.status(), kServiceCannotListen);
    certificates = std::move(*opened);
  }
  Result<std::unique_ptr<Store>> store = OpenStore(options);
  if (!store.ok()) return Fail(kName, store.status(), kServiceCannotListen);
  (*store)->SetRecordBounds({.age_ms = int64_t{options.audit_days} * 86'400'000});
  Result<TicketSigner> signer = TicketSignerOf(**store);
  if (!signer.ok()) return Fail(kName, signer.status(), kServiceCannotListen);
  const std::string host = HostDigest();
  // In its sandbox it removes no file.
  const auto fail = [&](const Status& why, int code) {
    if (const Status removed = line->Act(kRemoveSockets); !removed.ok()) LogDebug("the sockets stay: {}", removed.message());
    return Fail(kName, why, code);
  };
  if (const Status entered = EnterPlacerSandbox(options); !entered.ok()) return fail(entered, kServiceInternal);
  Result<std::unique_ptr<PlacerLoop>> loop = PlacerLoop::Start(
      {.cluster = options.cluster, .ticket_ms = int64_t{options.ticket_s} * 1'000, .host = host}, std::move(*signer), **store);
  if (!loop.ok()) return fail(loop.status(), kServiceCannotListen);

  const auto tell_policy = [&loop, path = options.policy_path](const Status& status) { NotePolicy(**loop, path, status); };
  if (!options.policy_path.empty()) tell_policy(Status::Ok());
  (*roles)->SetTold(tell_policy);
  RpcConnections connections(ConnectionBounds(),
                             [&roles](const std::string& holder) { return (*roles)->Current()->StandingOf(holder); });
  PlacementCalls placement(**loop, **roles, connections);
  NodeCalls nodes(**loop, **roles, connections);
  EventCalls events(**loop, **roles, connections);
  AdminCalls admin(**loop, **roles, connections);
  IdentityCalls identity(**loop, **roles, connections, certificates.get());
  RpcLanes lanes([&](Standing standing) {
    grpc::ServerBuilder builder;
    CallBounds(standing).Bound(builder, "placer");
    builder.RegisterService(&placement);
    builder.RegisterService(&nodes);
    builder.RegisterService(&events);
    builder.RegisterService(&admin);
    builder.RegisterService(&identity);
    return builder.BuildAndStart();
  });
  const RpcFront::ServerOf server_of = [&](const std::string& holder) -> grpc::Server& {
    return lanes.Of(holder, connections.StandingOfHolder(holder));
  };
  RpcFront front(server_of, connections);
  const Status bounded = BoundMemory(connections, **loop);
  if (!bounded.ok()) return fail(bounded, kServiceCannotListen);
  const Result<std::string> where = Serve(*listeners, std::move(*keys), front);
  if (!where.ok()) return fail(where.status(), kServiceCannotListen);
  Announce(std::string(kName) + ": listening on " + where.value() + ", cluster " + options.cluster);
  notice.Ready(where.value() + ", cluster " + options.cluster);
  const int number = AwaitEnd(ends, **loop, notice);
  notice.Stopping("ends");
  LogInfo("ends");
  if (const Status removed = line->Act(kRemoveSockets); !removed.ok()) LogDebug("the sockets stay: {}", removed.message());
  for (UnixListener& users : listeners->users) users.Close();
  (*loop)->End();  // and is there for calls that still come
  // Threads of the fronts and of gRPC go on until the process ends: nothing of theirs is taken away from under them.
  if (number != SIGCHLD) _exit(kServiceOk);
  const Status why(StatusCode::kUnavailable, "the process that opens files for this one has ended");
  _exit(Fail(kName, why, kServiceInternal));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  PlacerOptions options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  SetLogLevel(options.log_level);
  SetLogName(kName, LogTimes::kUnlessTerminal);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // of its helper, too
  return Run(options);
}
