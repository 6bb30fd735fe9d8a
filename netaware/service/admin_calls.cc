#include "netaware/service/admin_calls.h"

#include <utility>

#include "netaware/service/pool_messages.h"

namespace tessera {
namespace {

grpc::Status NotKept(const std::string& server, const StoreResult& result) {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "server '" + server + "' has changed, and the store has not kept it: " +
                                                    result.reason + "; do it again, or the next placer does not know"};
}

void FillIn(const PlacerCore& core, const std::string& server, int64_t now_ms, control::v1::ServerChange* change) {
  change->set_server(server);
  if (const ServerCordon* const cordon = core.CordonOf(server)) *change->mutable_cordon() = MessageOf(*cordon, now_ms);
  for (const GrantView& view : core.GrantsOf(server)) *change->add_grants() = MessageOf(view, core, false);
}

}  // namespace

grpc::Status AdminCalls::NotAllowed(const std::string& holder, const char* action, const std::string& server,
                                    const std::string& what) {
  const std::string who = holder.empty() ? "somebody who cannot be told" : holder;
  loop_.Post({PlacerWork::kQuestion, holder}, [who, action, server](PlacerCore& core, int64_t now_ms) {
    core.Note({.actor = who,
               .action = action,
               .object = server,
               .outcome = std::string(AuditRecord::kRefused),
               .text = "no role of his lets him"},
              now_ms);
  });
  return {grpc::StatusCode::PERMISSION_DENIED,
          who + " may not " + what + " at this placer: ask whoever runs it (tessera-placer --policy)"};
}

grpc::ServerUnaryReactor* AdminCalls::Change(grpc::CallbackServerContext* context, const char* action, const std::string& server,
                                             control::v1::ServerChange* change, Act act) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const std::string holder = connections_.HolderOf(context->peer());
  if (holder.empty() || roles_.Current()->RoleOf(holder) != Role::kAdmin) {
    reactor->Finish(NotAllowed(holder, action, server, "change servers"));
    return reactor;
  }
  loop_.Post({PlacerWork::kHas, holder}, [=, this, act = std::move(act)](PlacerCore& core, int64_t now_ms) {
    Result<StoreTransaction> kept = act(core, holder, now_ms);
    if (!kept.ok()) return reactor->Finish(GrpcStatusOf(kept.status()));
    FillIn(core, server, now_ms, change);
    if (kept->changes.empty()) return reactor->Finish(grpc::Status::OK);
    loop_.Write(std::move(*kept), [=](const StoreResult& result) {
      reactor->Finish(result.outcome == StoreResult::Outcome::kDone ? grpc::Status::OK : NotKept(server, result));
    });
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminCalls::Cordon(grpc::CallbackServerContext* context, const control::v1::CordonRequest* request,
                                             control::v1::ServerChange* change) {
  return Change(
      context, "cordon", request->server(), change,
      [server = request->server(), reason = request->reason()](PlacerCore& core, const std::string& holder, int64_t now_ms) {
        return core.Cordon(server, reason, holder, now_ms);
      });
}

grpc::ServerUnaryReactor* AdminCalls::Uncordon(grpc::CallbackServerContext* context, const control::v1::UncordonRequest* request,
                                               control::v1::ServerChange* change) {
  return Change(context, "uncordon", request->server(), change,
                [server = request->server()](PlacerCore& core, const std::string& holder, int64_t now_ms) {
                  return core.Uncordon(server, holder, now_ms);
                });
}

grpc::ServerUnaryReactor* AdminCalls::Drain(grpc::CallbackServerContext* context, const control::v1::DrainRequest* request,
                                            control::v1::ServerChange* change) {
  PlacerCore::DrainAsk ask{.server = request->server(), .reason = request->reason()};
  if (request->has_deadline_ms()) ask.within_ms = request->deadline_ms();
  const bool dry_run = request->dry_run();
  return Change(context, "drain", ask.server, change,
                [=](PlacerCore& core, const std::string& holder, int64_t now_ms) mutable -> Result<StoreTransaction> {
                  ask.by = holder;
                  if (!dry_run) return core.Drain(ask, now_ms);
                  if (const Status status = core.CheckDrain(ask); !status.ok()) return status;
                  return StoreTransaction{};
                });
}

grpc::ServerUnaryReactor* AdminCalls::Remove(grpc::CallbackServerContext* context, const control::v1::RemoveRequest* request,
                                             control::v1::ServerChange* change) {
  return Change(context, "remove", request->server(), change,
                [server = request->server()](PlacerCore& core, const std::string& holder, int64_t now_ms) {
                  return core.Remove(server, holder, now_ms);
                });
}

grpc::ServerUnaryReactor* AdminCalls::Plan(grpc::CallbackServerContext* context, const control::v1::PlaceRequest* request,
                                           control::v1::PlanAnswer* answer) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const std::string holder = connections_.HolderOf(context->peer());
  Result<PlacerCore::Ask> ask = AskOf(*request, roles_.Current()->NamedBy(holder));
  if (holder.empty() || !roles_.Current()->MayAsk(holder)) {
    reactor->Finish(NotAllowed(holder, "place", "", "ask for GPUs"));
  } else if (!ask.ok()) {
    reactor->Finish(GrpcStatusOf(ask.status()));
  } else if (ask->wish.priority == "protected" && !roles_.Current()->MayBeProtected(holder)) {
    reactor->Finish(NotProtected(holder));
  } else {
    loop_.Post({PlacerWork::kQuestion, holder}, [=, ask = std::move(*ask)](PlacerCore& core, int64_t now_ms) {
      *answer = MessageOf(core.Plan(ask.wish, ask.holder, now_ms), ask, core);
      reactor->Finish(grpc::Status::OK);
    });
  }
  return reactor;
}

}  // namespace tessera
