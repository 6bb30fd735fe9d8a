// What the supervisor and the broker have to do with one another.
#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/waiting.h"
#include "server/daemon/metrics_listener.h"
#include "server/daemon/supervisor.h"

namespace tessera {

Status Supervisor::StartBroker() {
  if (!options_.vgpus) return Status::Ok();
  if (!options_.vgpu_path.empty()) {
    Result<WatchedVgpuFile> file = WatchedVgpuFile::Open(options_.vgpu_path);
    if (!file.ok()) return Status(StatusCode::kInvalidArgument, file.status().message());
    vgpu_file_.emplace(std::move(*file));
  }
  RETURN_IF_ERROR(OpenMetrics());
  RETURN_IF_ERROR(OpenControl());
  RETURN_IF_ERROR(OpenState());
  RETURN_IF_ERROR(usage_.Prepare());
  broker_.OfferUsage(usage_.brokers_end());
  RETURN_IF_ERROR(broker_.Start());
  RETURN_IF_ERROR(TellFirstKeys());
  if (!vgpu_file_) {
    GiveBackState();
    return Status::Ok();
  }
  TellBrokerFile(vgpu_file_->text());
  const uint64_t deadline_ns = MonotonicNs() + kAskWaitNs;
  for (;;) {
    pollfd ready = broker_.watched();
    poll(&ready, 1, 100);
    for (const VgpuFileAnswer& answer : broker_.Hear().files) {
      if (answer.code != StatusCode::kOk) return Status(StatusCode::kInvalidArgument, answer.sentence);
      vgpu_in_force_ = vgpu_file_->text();
      GiveBackState();
      return Status::Ok();
    }
    if (MonotonicNs() > deadline_ns) return Status(StatusCode::kTimedOut, "the broker says nothing about " + options_.vgpu_path);
  }
}

Status Supervisor::OpenControlByTls() {
  if (options_.control_url.empty()) return Status::Ok();
  const auto refused = [](const Status& status) {
    return Status(StatusCode::kUnavailable, "no control API by TLS: " + status.message());
  };
  Result<HandedKeys> keys = ReadControlKeys(options_.link, ++keys_revision_);
  if (!keys.ok()) return refused(keys.status());
  Result<LinkAddress> address = LinkAddress::Parse(options_.control_url);
  if (!address.ok()) return address.status();
  Result<TcpListener> listener = TcpListener::Bind(*address, true);  // nobody comes without a certificate
  if (!listener.ok()) return refused(listener.status());
  next_keys_.emplace(std::move(*keys));
  control_tls_.emplace(std::move(*listener));
  broker_.OfferTls(control_tls_->fd());
  return Status::Ok();
}

Status Supervisor::TellFirstKeys() {
  if (!next_keys_) return Status::Ok();
  broker_.GiveKeys(*next_keys_);
  const uint64_t deadline_ns = MonotonicNs() + kAskWaitNs;
  while (MonotonicNs() < deadline_ns) {
    pollfd ready = broker_.watched();
    poll(&ready, 1, 100);
    for (const ControlKeysAnswer& answer : broker_.Hear().keys) {
      TakeKeysAnswer(answer);
      if (keys_) return Status::Ok();
      return Status(StatusCode::kUnavailable, "no control API by TLS: " + answer.sentence);
    }
  }
  return Status(StatusCode::kTimedOut, "the broker says nothing about the keys of --control " + options_.control_url);
}

void Supervisor::ReadKeysAgain() {
  if (!control_tls_) return;
  Result<HandedKeys> keys = ReadControlKeys(options_.link, ++keys_revision_);
  if (!keys.ok()) return LogWarning("the control API goes on with the certificate as it was: {}", keys.status().message());
  next_keys_.emplace(std::move(*keys));
  broker_.GiveKeys(*next_keys_);
}

void Supervisor::TakeKeysAnswer(const ControlKeysAnswer& answer) {
  const bool is_next = next_keys_ && answer.revision == next_keys_->message.revision;
  if (answer.code != StatusCode::kOk) {
    // Of the first ones the server's end says so.
    if (keys_)
      LogWarning("the control API {}: {}", is_next ? "goes on with the certificate as it was" : "takes nobody by TLS",
                 Printable(answer.sentence));
  } else if (is_next) {
    keys_ = std::move(next_keys_);
    LogInfo("the control API shows the certificate {}: {}", keys_->message.certificate, Printable(answer.sentence));
  }
  if (is_next) next_keys_.reset();
}

Status Supervisor::OpenControl() {
  RETURN_IF_ERROR(OpenControlByTls());
  if (options_.control_path.empty()) return Status::Ok();
  Result<UnixListener> control = UnixListener::Bind(options_.control_path, options_.socket, SocketKind::kBytes);
  if (control.ok()) {
    control_.emplace(std::move(*control));
    broker_.Offer(control_->fd());
    return Status::Ok();
  }
  if (options_.control_is_asked) return Status(StatusCode::kUnavailable, "no control API: " + control.status().message());
  LogWarning("there is no control API: {}", control.status().message());
  return Status::Ok();
}

Status Supervisor::OpenMetrics() {
  if (options_.metrics_address.empty()) return Status::Ok();
  Result<UniqueFd> listener = ListenForMetrics(options_.metrics_address);
  // Whatever was wrong with it, the server could not listen.
  if (!listener.ok()) return Status(StatusCode::kUnavailable, "no metrics: " + listener.status().message());
  metrics_ = std::move(*listener);
  broker_.OfferMetrics(metrics_.get());
  LogInfo("metrics are at http://{}/metrics", options_.metrics_address);
  return Status::Ok();
}

Status Supervisor::OpenState() {
  if (options_.state_path.empty() || (!control_ && !control_tls_)) return Status::Ok();
  Result<StateFile> state = StateFile::Open(options_.state_path);
  Status status = state.status();
  if (status.ok() && options_.state_is_asked) status = state->Prepare();
  if (!status.ok() && !options_.state_is_asked && status.code() != StatusCode::kInvalidArgument) {
    // A user without a home of his own, or behind su with that of another, still has a server.
    LogWarning("vGPUs that 'tessera vgpu' makes end with this server: {} (--state FILE)", status.message());
    return Status::Ok();
  }
  if (!status.ok()) return Status(StatusCode::kUnavailable, status.message());
  state_ = std::move(*state);
  return Status::Ok();
}

void Supervisor::Keep(BrokerProcess::Said& said) {
  for (AnsweredRequest& answered : said.answered) state_.Keep(std::move(answered));
  if (said.kept) state_.Keep(std::move(*said.kept));
}

void Supervisor::KeepState() {
  BrokerProcess::Said said = broker_.Hear();
  Keep(said);
  state_.Flush();
}

void Supervisor::GiveBackState() {
  if (state_.kept()) broker_.GiveBack(*state_.kept());
  broker_.Told(state_.answered());
}

bool Supervisor::AskBroker(Silent& client, ControlKind what, std::span<const std::byte> message, HeldPart& place) {
  std::string vgpus, said;
  std::vector<std::byte> ticket;
  bool will_begin = false;
  if (what == ControlKind::kClientHello) {
    if (Result<ClientHello> hello = ClientHello::Decode(message); hello.ok()) {
      vgpus = hello->vgpus;
      ticket = std::move(hello->ticket);
      said = hello->holder;
    }
  } else if (Result<ServerQuery> query = ServerQuery::Decode(message); query.ok()) {
    vgpus = query->vgpus;
    ticket = std::move(query->ticket);
    said = query->holder;
    will_begin = query->ask == ServerQuery::Ask::kBegin;
  }
  const bool is_query = what == ControlKind::kServerQuery;
  // Whoever only looks needs none.
  if ((!is_query || will_begin || !ticket.empty()) && RefuseWithoutTicket(client, !ticket.empty(), is_query)) return true;
  if (!ticket.empty()) vgpus.clear();
  if (vgpus.empty() && ticket.empty()) return false;
  const auto refuse = [&](const std::string& sentence) {
    TurnAway(client, Status(StatusCode::kResourceExhausted, sentence));
    return true;
  };
  if (!options_.vgpus) return refuse("this server has no vGPUs: leave --vgpu (TESSERA_VGPU) out, or use another server");
  if (asked_.size() == kAskedMax) return refuse("the server's broker is busy: start the program again");
  AskMessage question;
  question.id = next_ask_++;
  question.vgpus = std::move(vgpus);
  Caller caller = WhoIs(client.connection.get(), said);
  question.holder = caller.holder;
  question.begins = !is_query;
  question.will_begin = will_begin;
  asked_.push_back({std::move(question), std::move(ticket), std::move(client), std::move(caller), std::move(place), what,
                    MonotonicNs() + kAskWaitNs});
  // While none runs the next one is asked.
  if (asked_.back().ticket.empty()) {
    broker_.Ask(asked_.back().question);
  } else {
    AskNode(asked_.back());
  }
  return true;
}

void Supervisor::TakeAnswer(const AskAnswer& answer) {
  const auto found = std::ranges::find_if(asked_, [&](const Asked& each) { return each.question.id == answer.id; });
  if (found == asked_.end()) return;
  Asked asked = std::move(*found);
  asked_.erase(found);
  if (answer.code != StatusCode::kOk) {
    // `tessera run` tells a full vGPU from one that is not there.
    const bool is_full = answer.code == StatusCode::kFull;
    return TurnAway(asked.client, Status(is_full ? StatusCode::kFull : StatusCode::kResourceExhausted, answer.sentence));
  }
  const auto is_there = [&](uint32_t row) { return row < broker_.gpus().size(); };
  if (answer.rows.empty() || !std::ranges::all_of(answer.rows, is_there)) {
    return TurnAway(asked.client, Status(StatusCode::kInternal, "the server's broker named GPUs that are not there"));
  }
  const int connection = asked.client.connection.get();
  if (asked.what == ControlKind::kServerQuery) {
    if (!QueueQuestion(asked.client, &answer, asked.question.vgpus)) AnswerQuery(connection, &answer, asked.question.vgpus);
    return;
  }
  if (phase_ != Phase::kServing) return TurnAway(asked.client, Status(StatusCode::kResourceExhausted, Ending()));
  const Result<size_t> size = PeekMessage(connection, hello_);
  if (!size.ok()) return;
  BeginSession(asked.client, std::span(hello_).first(size.value()), std::move(asked.caller), std::move(asked.place), &answer,
               std::move(asked.question.vgpus));
}

void Supervisor::TendBroker() {
  if (!options_.vgpus || phase_ == Phase::kKilling) return;
  BrokerProcess::Said said = broker_.Hear();
  for (const VgpuFileAnswer& answer : said.files) TakeFileAnswer(answer);
  for (const ControlKeysAnswer& answer : said.keys) TakeKeysAnswer(answer);
  for (const AskAnswer& answer : said.answers) TakeAnswer(answer);
  for (OwnersMessage& owners : said.owners) {
    if (owners.is_first) owners_.clear();
    for (OwnersMessage::Row& row : owners.rows) owners_[row.name] = std::move(row.owners);
  }
  if (said.figures) figures_ = std::move(*said.figures);
  if (said.reported) TakeReported(*said.reported);
  Keep(said);
  state_.Tend(MonotonicNs());
  for (const EndMessage& end : said.to_end) EndSession(end, GateEnd::kDeleted);
  const uint64_t now_ns = MonotonicNs();
  while (!asked_.empty() && now_ns >= asked_.front().deadline_ns) {
    TakeAnswer({asked_.front().question.id,
                StatusCode::kTimedOut,
                asked_.front().ticket.empty() ? "the server's broker has not answered: start the program again"
                                              : "the server's node has not answered: start the program again",
                {},
                {}});
  }
  if (broker_.Tend()) TellBroker();
  usage_.Tend();
  if (vgpu_file_ && vgpu_file_->Look()) TellBrokerFile(vgpu_file_->text());
}

void Supervisor::TellBroker() {
  if (keys_) broker_.GiveKeys(*keys_);
  if (next_keys_) broker_.GiveKeys(*next_keys_);
  // What running sessions have comes first.
  if (vgpu_file_) TellBrokerFile(vgpu_in_force_);
  GiveBackState();
  if (vgpu_file_) {
    if (vgpu_file_->text() != vgpu_in_force_) TellBrokerFile(vgpu_file_->text());
  }
  for (const auto& [pid, worker] : workers_) TellBrokerOf(worker);
  for (const Asked& asked : asked_) {
    if (asked.ticket.empty()) broker_.Ask(asked.question);
  }
}

void Supervisor::TellBrokerOf(const Worker& worker) {
  CameMessage came;
  came.session = worker.process.session;
  came.worker_pid = static_cast<uint32_t>(worker.process.pid);
  came.vgpus = worker.hello.vgpus;
  broker_.Came(came, worker.process.gate, worker.process.pidfd.get());
}

void Supervisor::TellBrokerFile(const std::string& text) {
  VgpuFileMessage message;
  message.path = vgpu_file_->path();
  message.revision = ++vgpu_revision_;
  message.size_bytes = text.size();
  broker_.SendFile(message, text);
}

void Supervisor::TakeFileAnswer(const VgpuFileAnswer& answer) {
  if (answer.revision != vgpu_revision_) return;  // of a text that is not there any more
  vgpu_problem_ = answer.code == StatusCode::kOk ? "" : answer.sentence;
  if (vgpu_problem_.empty()) {
    vgpu_in_force_ = vgpu_file_->text();
    LogInfo("the vGPUs of {} are in force", vgpu_file_->path());
  } else {
    LogError("the vGPUs stay as they are: {}", vgpu_problem_);
  }
}

}  // namespace tessera
