#include "netaware/service/node_calls.h"

#include <deque>
#include <memory>
#include <utility>

#include "netaware/service/pool_messages.h"
#include "protocol/base/log.h"
#include "protocol/base/mutex.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::FromNode;
using control::v1::ToNode;

// One node's stream. It owns itself until OnDone().
class NodeStream : public grpc::ServerBidiReactor<FromNode, ToNode>,
                   public NodeEnd,
                   public std::enable_shared_from_this<NodeStream> {
 public:
  NodeStream(PlacerLoop& loop, RolesFile& roles, std::string holder) : loop_(loop), roles_(roles), holder_(std::move(holder)) {}

  void Begin() {
    self_ = shared_from_this();
    StartRead(&message_);
  }
  void Refuse(const grpc::Status& why) {
    self_ = shared_from_this();
    End(why);
  }

  void Send(const PlacerOrder& order) override { Offer(MessageOf(order)); }
  void SendClock(int64_t now_ms) override {
    ToNode message;
    message.mutable_clock()->set_now_ms(now_ms);
    Offer(std::move(message));
  }
  void EndSilent() override { End({grpc::StatusCode::DEADLINE_EXCEEDED, "the placer has heard nothing of this node for long"}); }

  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    loop_.Post({PlacerWork::kServer, holder_},
               [self = self_, message = message_](PlacerCore& core, int64_t now_ms) { self->Take(core, message, now_ms); });
    message_.Clear();
    StartRead(&message_);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    if (!ok || ended_) return;
    messages_.pop_front();
    if (!messages_.empty()) StartWrite(&messages_.front());
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    loop_.Post({PlacerWork::kServer, holder_}, [self = std::move(self_)](PlacerCore& core, int64_t now_ms) {
      if (self->server_.empty()) return;
      LogInfo("server '{}' has left", Printable(self->server_));
      self->loop_.Detach(self->server_);
      core.Leave(self->server_, now_ms);
    });
  }

 private:
  // More messages than ever wait for a node that reads.
  static constexpr size_t kWaitingMax = 16'384;

  void Take(PlacerCore& core, const FromNode& message, int64_t now_ms) {
    if (message.has_registration()) return Join(core, message.registration(), now_ms);
    if (server_.empty()) return End({grpc::StatusCode::INVALID_ARGUMENT, "a node's first message is its registration"});
    loop_.Heard(server_, now_ms);
    if (message.has_answer()) {
      if (!message.answer().done()) LogInfo("server '{}' refuses: {}", Printable(server_), Printable(message.answer().reason()));
      return core.Answered(server_, message.answer().number(), message.answer().done(), now_ms);
    }
    if (!message.has_beat()) return;
    Result<NodeState> state = NodeStateOf(message.beat(), gpus_);
    if (!state.ok()) return End(GrpcStatusOf(state.status()));
    core.Beat(server_, *state, now_ms);
  }
  void Join(PlacerCore& core, const control::v1::Registration& registration, int64_t now_ms) {
    if (!server_.empty()) return End({grpc::StatusCode::INVALID_ARGUMENT, "a node registers once on a stream"});
    Result<JoiningNode> node = NodeOf(registration);
    const auto note = [&](const std::string& why) {
      core.Note({.actor = holder_,
                 .action = "join",
                 .object = node.ok() ? node->server.id : "",
                 .outcome = std::string(AuditRecord::kRefused),
                 .text = why},
                now_ms);
    };
    if (!node.ok()) {
      note(node.status().message());
      return End(GrpcStatusOf(node.status()));
    }
    if (!roles_.Current()->MayBeServer(holder_, node->server.id)) {
      note("the name is another server's by the roles");
      return End({grpc::StatusCode::PERMISSION_DENIED,
                  "the server '" + Printable(node->server.id) + "' is another certificate's than " + holder_ +
                      " in the placer's roles (tessera-placer --policy): give this host another id (tessera-node --host-id)"});
    }
    node->holder = holder_;
    ToNode welcome;
    welcome.mutable_welcome()->set_cluster(core.options().cluster);
    welcome.mutable_welcome()->set_epoch(core.epoch());
    welcome.mutable_welcome()->add_ticket_keys(core.public_key());
    welcome.mutable_welcome()->set_now_ms(now_ms);
    const std::string id = node->server.id;
    const size_t gpus = node->server.gpus.size();
    // Join() sends orders, which come after the welcome. A server that is in the pool already keeps its own stream.
    const auto there = core.pool().servers().find(id);
    if (there != core.pool().servers().end() && there->second.joined) {
      note("a server of that id is in the pool");
      return End({grpc::StatusCode::ALREADY_EXISTS,
                  "a server '" + id + "' is in the pool: give this host another id (tessera-node --host-id), or end the other"});
    }
    Offer(std::move(welcome));
    loop_.Attach(id, weak_from_this(), now_ms);
    if (const Status joined = core.Join(std::move(*node), now_ms); !joined.ok()) {
      loop_.Detach(id);
      return End(GrpcStatusOf(joined));
    }
    server_ = id;
    gpus_ = gpus;
    LogInfo("server '{}' of {} has joined with {} GPUs", Printable(id), holder_, gpus);
  }
  void Offer(ToNode message) {
    MutexLock lock(mutex_);
    if (ended_) return;
    if (messages_.size() == kWaitingMax) {
      ended_ = true;
      return Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the node does not read"});
    }
    messages_.push_back(std::move(message));
    if (messages_.size() == 1) StartWrite(&messages_.front());
  }
  void End(const grpc::Status& status) {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  PlacerLoop& loop_;
  RolesFile& roles_;
  const std::string holder_;
  std::shared_ptr<NodeStream> self_;  // until OnDone()
  FromNode message_;                  // being read
  std::string server_;                // used in the loop's thread; empty: it has not joined
  size_t gpus_ = 0;
  Mutex mutex_;
  std::deque<ToNode> messages_ GUARDED_BY(mutex_);  // the first one is being written
  bool ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerBidiReactor<FromNode, ToNode>* NodeCalls::Attach(grpc::CallbackServerContext* context) {
  const std::string holder = connections_.HolderOf(context->peer());
  const auto stream = std::make_shared<NodeStream>(loop_, roles_, holder);
  if (holder.empty() || !roles_.Current()->MayJoin(holder)) {
    const std::string who = holder.empty() ? "somebody who cannot be told" : holder;
    loop_.Post({PlacerWork::kQuestion, holder}, [who](PlacerCore& core, int64_t now_ms) {
      core.Note({.actor = who, .action = "join", .outcome = std::string(AuditRecord::kRefused), .text = "he is no server"},
                now_ms);
    });
    stream->Refuse({grpc::StatusCode::PERMISSION_DENIED,
                    who + " is no server of this pool: give it the role 'server' (tessera-placer --policy)"});
  } else {
    stream->Begin();
  }
  return stream.get();
}

}  // namespace tessera
