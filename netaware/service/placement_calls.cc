#include "netaware/service/placement_calls.h"

#include <deque>
#include <optional>
#include <utility>

#include "netaware/service/pool_messages.h"
#include "protocol/base/mutex.h"

namespace tessera {
namespace {

using control::v1::GrantState;

// The stream of one Place call. It owns itself until OnDone(). A stream that ends before the loop comes to it leaves nothing
// there, so a client that asks and hangs up repeatedly takes no memory.
class JobStream : public grpc::ServerWriteReactor<GrantState>, public JobEnd, public std::enable_shared_from_this<JobStream> {
 public:
  explicit JobStream(PlacerLoop& loop) : loop_(loop) {}

  void Begin(PlacerCore::Ask ask) {
    self_ = shared_from_this();
    ask_ = std::move(ask);
    loop_.Post({PlacerWork::kAsk, ask_.holder}, [stream = weak_from_this()](PlacerCore& core, int64_t now_ms) {
      if (const std::shared_ptr<JobStream> self = stream.lock()) self->Ask(core, now_ms);
    });
  }
  void Refuse(const grpc::Status& why) {
    self_ = shared_from_this();
    MutexLock lock(mutex_);
    End(why);
  }
  void Tell(const GrantView& view) override { Offer(MessageOf(view, *core_, true), view.state > Grant::State::kGranted); }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    if (!ok) return;
    states_.pop_front();
    Write();
  }
  void OnCancel() override {
    MutexLock lock(mutex_);
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    const std::shared_ptr<JobStream> self = std::move(self_);
    {
      MutexLock lock(mutex_);
      ended_ = true;
      if (!asked_) return;
    }
    loop_.Post({PlacerWork::kHas, ask_.holder}, [self](PlacerCore& core, int64_t) {
      // A waiting client that hangs up has withdrawn, unless another stream makes the same request.
      if (!self->grant_) return;
      self->loop_.Unwatch(*self->grant_, self.get());
      if (!self->loop_.IsWatched(*self->grant_)) core.Withdraw(*self->grant_);
    });
  }

 private:
  void Ask(PlacerCore& core, int64_t now_ms) {
    {
      MutexLock lock(mutex_);
      if (ended_) return;
      asked_ = true;
    }
    core_ = &core;
    Result<GrantId> grant = core.Place(ask_, now_ms);
    if (!grant.ok()) {
      MutexLock lock(mutex_);
      return End(GrpcStatusOf(grant.status()));
    }
    grant_ = *grant;
    loop_.Watch(*grant, weak_from_this());
    if (const std::optional<GrantView> view = core.View(*grant); view && view->state == Grant::State::kGranted) Tell(*view);
  }
  void Offer(GrantState state, bool is_last) {
    MutexLock lock(mutex_);
    if (ended_) return;
    states_.push_back(std::move(state));
    is_last_ = is_last_ || is_last;
    if (states_.size() == 1) Write();
  }
  void Write() REQUIRES(mutex_) {
    if (ended_) return;
    if (!states_.empty()) return StartWrite(&states_.front());
    if (is_last_) End(grpc::Status::OK);
  }
  void End(const grpc::Status& status) REQUIRES(mutex_) {
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  PlacerLoop& loop_;
  PlacerCore::Ask ask_;
  PlacerCore* core_ = nullptr;  // used in the loop's thread, as is the grant
  std::optional<GrantId> grant_;
  std::shared_ptr<JobStream> self_;  // until OnDone()
  Mutex mutex_;
  std::deque<GrantState> states_ GUARDED_BY(mutex_);  // the first one is being written
  bool is_last_ GUARDED_BY(mutex_) = false;
  bool asked_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
};

grpc::Status EndIsNotStored(const GrantId& grant) {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          "grant " + GrantText(grant) +
              " has ended, and the placer could not store that yet: its disk is full, as a rule; it tries " +
              "again each second, and a placer that starts before has the grant again"};
}

}  // namespace

grpc::Status PlacementCalls::NotAllowed(const std::string& holder, const char* action) {
  const std::string who = holder.empty() ? "somebody who cannot be told" : holder;
  loop_.Post({PlacerWork::kQuestion, holder}, [who, action](PlacerCore& core, int64_t now_ms) {
    core.Note({.actor = who, .action = action, .outcome = std::string(AuditRecord::kRefused), .text = "no role of his lets him"},
              now_ms);
  });
  return {grpc::StatusCode::PERMISSION_DENIED,
          who + " may not do this at the placer: ask whoever runs it (tessera-placer --policy)"};
}

PlacementCalls::Caller PlacementCalls::WhoCalls(const grpc::CallbackServerContext& context) {
  const std::string user = connections_.HolderOf(context.peer());
  const std::shared_ptr<const Roles> roles = roles_.Current();
  return {user, roles->NamedBy(user), roles};
}

grpc::ServerWriteReactor<GrantState>* PlacementCalls::Place(grpc::CallbackServerContext* context,
                                                            const control::v1::PlaceRequest* request) {
  const auto stream = std::make_shared<JobStream>(loop_);
  const Caller caller = WhoCalls(*context);
  Result<PlacerCore::Ask> ask = AskOf(*request, caller.holder);
  if (caller.user.empty() || !caller.roles->MayAsk(caller.user)) {
    stream->Refuse(NotAllowed(caller.user, "ask"));
  } else if (!ask.ok()) {
    stream->Refuse(GrpcStatusOf(ask.status()));
  } else if (ask->wish.priority == "protected" && !caller.roles->MayBeProtected(caller.user)) {
    stream->Refuse(NotProtected(caller.user));
  } else {
    stream->Begin(std::move(*ask));
  }
  return stream.get();
}

grpc::ServerUnaryReactor* PlacementCalls::WithGrant(grpc::CallbackServerContext* context, const std::string& grant, Right right,
                                                    GrantState* state, Act act) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const Caller caller = WhoCalls(*context);
  Result<GrantId> id = GrantOf(grant);
  if (!id.ok()) {
    reactor->Finish(GrpcStatusOf(id.status()));
    return reactor;
  }
  // A release is queued behind the asks that came before it: otherwise such an ask would be granted anew.
  const PlacerLoop::Origin origin = right == Right::kEnd ? PlacerLoop::Origin{PlacerWork::kAsk, caller.holder}
                                                         : PlacerLoop::Origin{PlacerWork::kHas, caller.user};
  loop_.Post(origin, [=, this, id = *id, act = std::move(act)](PlacerCore& core, int64_t now_ms) {
    const std::optional<GrantView> view = core.View(id);
    const bool is_own = view && caller.Has(view->grant.ask.holder);
    if (!view && right != Right::kKeep) {
      const std::optional<std::string> holder = core.EndNotStored(id);
      if (holder && (caller.Has(*holder) || caller.roles->SeesAll(caller.user))) return reactor->Finish(EndIsNotStored(id));
    }
    // For a grant that the caller may not see, the answer is the same as for one that does not exist.
    if (!view || (!is_own && !caller.roles->SeesAll(caller.user)))
      return reactor->Finish({grpc::StatusCode::NOT_FOUND, "there is no grant " + GrantText(id) + ", or it has ended"});
    if (right != Right::kSee && !is_own && !caller.roles->MayEndAll(caller.user)) {
      core.Note({.actor = caller.user,
                 .action = right == Right::kEnd ? "release" : "renew",
                 .object = GrantText(id),
                 .outcome = std::string(AuditRecord::kRefused),
                 .holder = view->grant.ask.holder,
                 .text = "the grant is another's"},
                now_ms);
      return reactor->Finish({grpc::StatusCode::PERMISSION_DENIED, "the grant is of " + view->grant.ask.holder});
    }
    const Status done = act(core, *view, now_ms);
    if (const std::optional<GrantView> now = core.View(id)) *state = MessageOf(*now, core, is_own);
    const grpc::Status status = GrpcStatusOf(done);
    if (right != Right::kEnd || !done.ok()) return reactor->Finish(status);
    // The answer waits for the store: otherwise a placer after this one could still have a grant that was reported as released.
    loop_.AfterForgotten(id, [reactor, id](bool stored) { reactor->Finish(stored ? grpc::Status::OK : EndIsNotStored(id)); });
  });
  return reactor;
}

grpc::ServerUnaryReactor* PlacementCalls::Renew(grpc::CallbackServerContext* context, const control::v1::RenewRequest* request,
                                                GrantState* state) {
  return WithGrant(context, request->grant(), Right::kKeep, state,
                   [](PlacerCore& core, const GrantView& view, int64_t now_ms) { return core.Renew(view.grant.ask.id, now_ms); });
}

grpc::ServerUnaryReactor* PlacementCalls::Release(grpc::CallbackServerContext* context,
                                                  const control::v1::ReleaseRequest* request, GrantState* state) {
  const Caller caller = WhoCalls(*context);
  return WithGrant(context, request->grant(), Right::kEnd, state,
                   [caller, reason = request->reason()](PlacerCore& core, const GrantView& view, int64_t) {
                     const GrantId& id = view.grant.ask.id;
                     if (caller.Has(view.grant.ask.holder)) return core.Release(id);
                     const std::string by = "by " + caller.user;
                     return core.Revoke(id, reason.empty() ? by : by + ": " + reason, caller.user);
                   });
}

grpc::ServerUnaryReactor* PlacementCalls::GetGrant(grpc::CallbackServerContext* context,
                                                   const control::v1::GetGrantRequest* request, GrantState* state) {
  return WithGrant(context, request->grant(), Right::kSee, state,
                   [](PlacerCore&, const GrantView&, int64_t) { return Status::Ok(); });
}

grpc::ServerUnaryReactor* PlacementCalls::ListGrants(grpc::CallbackServerContext* context, const control::v1::ListGrantsRequest*,
                                                     control::v1::GrantList* list) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const Caller caller = WhoCalls(*context);
  loop_.Post({PlacerWork::kQuestion, caller.user}, [=](PlacerCore& core, int64_t) {
    if (context->IsCancelled()) return reactor->Finish(grpc::Status::CANCELLED);
    for (const GrantView& view : core.ViewAll()) {
      const bool is_own = caller.Has(view.grant.ask.holder);
      if (is_own || caller.roles->SeesAll(caller.user)) *list->add_grants() = MessageOf(view, core, false);
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* PlacementCalls::ListServers(grpc::CallbackServerContext* context,
                                                      const control::v1::ListServersRequest*, control::v1::ServerList* list) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const Caller caller = WhoCalls(*context);
  if (caller.user.empty() || caller.roles->RoleOf(caller.user) == Role::kNobody) {
    reactor->Finish(NotAllowed(caller.user, "list"));
    return reactor;
  }
  loop_.Post({PlacerWork::kQuestion, caller.user}, [=](PlacerCore& core, int64_t now_ms) {
    if (context->IsCancelled()) return reactor->Finish(grpc::Status::CANCELLED);
    *list = ServersOf(core, now_ms);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* PlacementCalls::Whoami(grpc::CallbackServerContext* context, const control::v1::WhoamiRequest*,
                                                 control::v1::WhoamiAnswer* answer) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const Caller caller = WhoCalls(*context);
  answer->set_holder(caller.holder);
  answer->set_role(WordOf(caller.holder.empty() ? Role::kNobody : caller.roles->RoleOf(caller.holder)));
  answer->set_release(TESSERA_VERSION);
  loop_.Post({PlacerWork::kQuestion, caller.user}, [=](PlacerCore& core, int64_t now_ms) {
    answer->set_cluster(core.options().cluster);
    answer->set_now_ms(now_ms);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

}  // namespace tessera
