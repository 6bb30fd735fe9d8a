// Who connects to the supervisor, until a session of it begins: strangers, and starts that wait for their turn.
#include <poll.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/waiting.h"
#include "server/daemon/supervisor.h"

namespace tessera {
namespace {

// How many are accepted until the loop looks at the others again.
constexpr int kTakenAtOnceMax = 64;
// For a first message: clients send it at once.
constexpr uint64_t kFirstMessageNs = 2'000'000'000;

// Of which of them something is to be heard.
std::set<int> Ready(std::span<const pollfd> watched) {
  std::set<int> ready;
  for (const pollfd& one : watched) {
    if (one.revents != 0) ready.insert(one.fd);
  }
  return ready;
}

size_t StartsAtOnce() { return std::max<size_t>(Supervisor::kStartsAtOnce, std::thread::hardware_concurrency()); }

}  // namespace

// --- Strangers ---

void Supervisor::AcceptClients(UnixListener& listener) {
  for (int taken = 0; taken < kTakenAtOnceMax; ++taken) {
    Result<UniqueFd> connection = listener.Accept();
    if (!connection.ok()) {
      if (connection.status().code() == StatusCode::kTimedOut) return accepting_.End();  // nobody waits
      if (connection.status().code() != StatusCode::kPermissionDenied) {
        if (const auto goes = strangers_.GiveUpOldest()) DropStranger(*goes);
        return accepting_.Begin(connection.status(), MonotonicNs());
      }
      LogStranger("turned away a client: {}", connection.status().message());
      continue;
    }
    accepting_.End();
    Result<PeerCredentials> peer = PeerOf(connection->get());
    Silent client{std::move(connection).value(), peer.ok() ? peer->pid : -1,
                  MonotonicNs() + std::min(options_.hello_timeout_ns(), kFirstMessageNs)};
    if (Hear(client)) continue;
    const Strangers::Id id = next_stranger_++;
    silent_.emplace(id, std::move(client));
    if (const auto goes = strangers_.Come(id, Source::OfUser(peer.ok() ? peer->uid : UINT32_MAX))) DropStranger(*goes);
  }
}

void Supervisor::DropStranger(Strangers::Id id) {
  const auto found = silent_.find(id);
  if (found == silent_.end()) return;
  LogStranger("turned away the client with pid {}: it said nothing, and more connect than have a place",
              found->second.client_pid);
  silent_.erase(found);
}

void Supervisor::HearSilent(std::span<const pollfd> ready) {
  const std::set<int> spoke = Ready(ready);
  const uint64_t now_ns = MonotonicNs();
  for (auto next = silent_.begin(); next != silent_.end();) {
    const auto at = next++;
    Silent& client = at->second;
    if (!spoke.contains(client.connection.get()) || !Hear(client)) {
      if (now_ns < client.deadline_ns) continue;
      LogStranger("turned away the client with pid {}: it connected and said nothing", client.client_pid);
    }
    strangers_.Leave(at->first);
    silent_.erase(at);
  }
}

Caller Supervisor::WhoIs(int connection, const std::string& said) const {
  const Result<PeerCredentials> peer = PeerOf(connection);
  const PeerCredentials who = peer.ok() ? peer.value() : PeerCredentials{-1, UINT32_MAX, UINT32_MAX};
  const bool is_gateway = std::ranges::any_of(gateways_, [&](const GatewayProcess& one) { return one.pid == who.pid; });
  return CallerOf(who, is_gateway ? who.pid : -1, said, options_.administrators);
}

bool Supervisor::Hear(Silent& client) {
  const Result<size_t> size = PeekMessage(client.connection.get(), hello_);
  if (!size.ok()) {
    if (size.status().code() == StatusCode::kTimedOut) return false;
    LogDebug("pid {} connected and left", client.client_pid);
    return true;
  }
  const std::span<const std::byte> message = std::span(hello_).first(size.value());
  HeldPart none;
  switch (ControlKindOf(message)) {
    case ControlKind::kServerQuery:
      if (AskBroker(client, ControlKind::kServerQuery, message, none) || QueueQuestion(client, nullptr, "")) return true;
      AnswerQuery(client.connection.get(), nullptr);
      return true;
    case ControlKind::kClientHello: QueueStart(client, message); return true;
    default:
      TurnAway(client, Status(StatusCode::kProtocolViolation,
                              "the server got something else than a hello: install the same release of tessera on both sides"));
      return true;
  }
}

// --- Starts ---

void Supervisor::QueueStart(Silent& client, std::span<const std::byte> message) {
  Result<ClientHello> hello = ClientHello::Decode(message);
  if (!hello.ok() || hello->wire_version != kWireVersion || hello->spec_hash != kSpecHash) {
    // Refuses it with what is wrong.
    const Result<ClientHello> refused = ReceiveHello(client.connection.get(), kSpecHash, 0);
    LogWarning("turned away the client with pid {}: {}", client.client_pid, refused.status().message());
    return;
  }
  // Of another code its library would say that there is no server.
  if (phase_ != Phase::kServing) return TurnAway(client, Status(StatusCode::kResourceExhausted, Ending()));
  Caller caller = WhoIs(client.connection.get(), hello->holder);
  const std::string holder = caller.holder;
  const uint64_t now_ns = MonotonicNs();
  if (!turns_.Take(holder, 1, now_ns)) {
    return TurnAway(client, Status(StatusCode::kResourceExhausted,
                                   fmt::format("{} of your programs wait for a session already: start fewer at once",
                                               starts_.CountOf(holder))));
  }
  const uint64_t wait_ns = options_.start_wait_s * uint64_t{1'000'000'000};
  starts_.Push(holder, {std::move(client), std::move(caller), HeldPart(turns_, holder, 1), now_ns + wait_ns,
                        PlaceUntilNs(hello->wait_ms), std::nullopt});
}

bool Supervisor::QueueQuestion(Silent& client, const AskAnswer* vgpus, const std::string& names) {
  const Result<size_t> size = PeekMessage(client.connection.get(), hello_);
  if (!size.ok()) return false;
  Result<ServerQuery> query = ServerQuery::Decode(std::span(hello_).first(size.value()));
  if (!query.ok() || query->wire_version != kWireVersion || query->ask != ServerQuery::Ask::kBegin) return false;
  if (phase_ != Phase::kServing) {
    TurnAway(client, Status(StatusCode::kUnavailable, Ending()));
    return true;
  }
  // Who has to name a vGPU and names none is told that first.
  if (vgpus == nullptr && report_.needs_vgpu) return false;
  Caller caller = WhoIs(client.connection.get(), query->holder);
  const std::string holder = caller.holder;
  const uint64_t until_ns = PlaceUntilNs(query->wait_ms);
  const uint64_t now_ns = MonotonicNs();
  if (WhyNoPlaceFor(caller).empty() || until_ns <= now_ns || !turns_.Take(holder, 1, now_ns)) return false;
  PlaceQuestion question{vgpus == nullptr ? std::nullopt : std::optional<AskAnswer>(*vgpus), names};
  starts_.Push(holder,
               {std::move(client), std::move(caller), HeldPart(turns_, holder, 1), until_ns, until_ns, std::move(question)});
  return true;
}

void Supervisor::AnswerQuestion(const Start& start) {
  const PlaceQuestion& question = *start.question;
  AnswerQuery(start.client.connection.get(), question.vgpus ? &*question.vgpus : nullptr, question.names);
}

uint64_t Supervisor::PlaceUntilNs(uint32_t wait_ms) const {
  const uint64_t most_ns = options_.start_wait_s * uint64_t{1'000'000'000};
  const bool as_server = wait_ms == ClientHello::kWaitAsServer;
  return MonotonicNs() + (as_server ? most_ns : std::min(most_ns, std::max(wait_ms * uint64_t{1'000'000}, kPlaceWaitNs)));
}

std::string Supervisor::Ending() const {
  return fmt::format("the server is ending, {} sessions left: start it again, or use another one", workers_.size());
}

void Supervisor::DropStarts(std::span<const pollfd> ready) {
  const std::set<int> ended = Ready(ready);
  if (ended.empty()) return;
  starts_.DropIf([&](const Start& start) {
    if (!ended.contains(start.client.connection.get())) return false;
    LogDebug("pid {} left before its session began", start.client.client_pid);
    return true;
  });
}

void Supervisor::TendStarts() {
  if (starts_.empty()) return;
  const uint64_t now_ns = MonotonicNs();
  std::map<std::string, uint64_t> waiting;
  starts_.ForEach([&](const std::string& holder, const Start& start) { ++waiting[holder]; });
  for (const auto& [holder, count] : waiting) sessions_.Want(holder, count, now_ns);
  const auto may = [&](const std::string& holder) {
    return (Beginning() < StartsAtOnce() || Beginning(&holder) == 0) && sessions_.Take(holder, 1, now_ns);
  };
  while (std::optional<Start> start = starts_.Pop(may)) BeginStart(std::move(*start));
  starts_.DropIf([&](Start& start) {
    const bool waits_on = now_ns < start.deadline_ns;
    if (waits_on && (now_ns < start.place_until_ns || WhyNoPlaceFor(start.caller).empty())) return false;
    if (start.question) {
      AnswerQuestion(start);
    } else {
      TurnAway(start.client, NoRoomFor(start.caller));
    }
    return true;
  });
  for (const auto& [holder, count] : waiting) sessions_.Want(holder, starts_.CountOf(holder), now_ns);
}

void Supervisor::BeginStart(Start start) {
  HeldPart place(sessions_, start.caller.holder, 1);
  if (start.question) {
    // The place is not kept for it: who begins next may have it.
    place = HeldPart();
    return AnswerQuestion(start);
  }
  const Result<size_t> size = PeekMessage(start.client.connection.get(), hello_);
  if (!size.ok()) return LogDebug("pid {} left before its session began", start.client.client_pid);
  const std::span<const std::byte> message = std::span(hello_).first(size.value());
  if (AskBroker(start.client, ControlKind::kClientHello, message, place)) return;
  BeginSession(start.client, message, std::move(start.caller), std::move(place), nullptr);
}

void Supervisor::RefuseStarts() {
  starts_.DropIf([&](Start& start) {
    TurnAway(start.client, Status(start.question ? StatusCode::kUnavailable : StatusCode::kResourceExhausted, Ending()));
    return true;
  });
}

Status Supervisor::NoRoomFor(const Caller& caller) const {
  if (sessions_.used() < options_.sessions_max && Beginning(&caller.holder) > 0) {
    return Status(StatusCode::kResourceExhausted, "the server has not come to begin the session: start fewer programs at once");
  }
  return Status(StatusCode::kResourceExhausted, WhyFullFor(caller));
}

std::string Supervisor::WhyFullFor(const Caller& caller) const {
  if (sessions_.used() >= options_.sessions_max) {
    return fmt::format("the server has {} sessions, its limit: raise --max-sessions of tesserad", sessions_.used());
  }
  return fmt::format(
      "{} sessions are yours, and the server keeps the rest of its {} for others: end some, or raise "
      "--max-sessions of tesserad",
      sessions_.held(caller.holder), options_.sessions_max);
}

std::string Supervisor::WhyNoPlaceFor(const Caller& caller) {
  if (!sessions_.Take(caller.holder, 1, MonotonicNs())) return WhyFullFor(caller);
  sessions_.GiveBack(caller.holder, 1);
  return "";
}

std::vector<ServerReport::Holder> Supervisor::HoldersFor(const Caller& asker) const {
  std::set<std::string> names;
  for (const FairBound* bound : {&sessions_, &turns_, &shares_.objects(), &host_memory_}) {
    for (std::string& name : bound->holders()) {
      if (Sees(asker, name)) names.insert(std::move(name));
    }
  }
  std::vector<ServerReport::Holder> holders;
  for (const std::string& name : names) {
    holders.push_back({name, static_cast<uint32_t>(sessions_.held(name)), static_cast<uint32_t>(turns_.held(name)),
                       static_cast<uint32_t>(shares_.objects().held(name)),
                       static_cast<uint32_t>(shares_.descriptors().held(name)), host_memory_.held(name)});
  }
  return holders;
}

size_t Supervisor::Beginning(const std::string* holder) const {
  const uint64_t now_ns = MonotonicNs();
  const auto is_of = [&](const Caller& caller) { return holder == nullptr || caller.holder == *holder; };
  const auto of_asked = std::ranges::count_if(
      asked_, [&](const Asked& asked) { return asked.what == ControlKind::kClientHello && is_of(asked.caller); });
  const auto of_begun = std::ranges::count_if(
      workers_, [&](const auto& each) { return now_ns < each.second.begins_until_ns && is_of(each.second.caller); });
  return static_cast<size_t>(of_asked + of_begun);
}

uint64_t Supervisor::NextStartNs() const {
  uint64_t next_ns = kNoDeadline;
  if (starts_.empty()) return next_ns;
  const uint64_t now_ns = MonotonicNs();
  starts_.ForEach([&](const std::string& holder, const Start& start) {
    next_ns = std::min(next_ns, start.deadline_ns);
    if (start.place_until_ns > now_ns) next_ns = std::min(next_ns, start.place_until_ns);
  });
  for (const auto& [pid, worker] : workers_) {
    if (worker.begins_until_ns > now_ns) next_ns = std::min(next_ns, worker.begins_until_ns);
  }
  return next_ns;
}

}  // namespace tessera
