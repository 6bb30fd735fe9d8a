#include "netaware/service/event_calls.h"

#include <fmt/core.h>

#include <chrono>
#include <deque>
#include <utility>

#include "netaware/service/pool_messages.h"
#include "protocol/base/mutex.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::Event;

constexpr size_t kNameBytesMax = 256;

void FillIn(const AuditRecord& record, bool audit, Event* event) {
  event->set_number(record.number);
  event->set_time_ms(record.time_ms);
  event->set_action(record.action);
  event->set_outcome(record.outcome);
  event->set_object(record.object);
  event->set_holder(record.holder);
  for (const std::string& server : record.servers) event->add_servers(server);
  event->set_text(record.text);
  if (audit) event->set_actor(record.actor);
}

// True for the records that a holder may see. His rights are looked up again each second.
class Sight {
 public:
  Sight(RolesFile& roles, std::string holder, std::string of) : roles_(roles), holder_(std::move(holder)), of_(std::move(of)) {}
  bool operator()(const AuditRecord& record) {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ >= std::chrono::seconds(1)) {
      looked_ = now;
      const auto current = roles_.Current();
      all_ = current->SeesAll(holder_);
      none_ = current->RoleOf(holder_) == Role::kNobody;
      name_ = current->NamedBy(holder_);
    }
    if (none_ || (!of_.empty() && !record.IsOf(of_))) return false;
    return all_ || record.IsOfServer() || record.holder == holder_ || record.holder == name_;
  }

 private:
  RolesFile& roles_;
  const std::string holder_, of_;
  std::string name_;  // the holder of the grants that he asks for
  std::chrono::steady_clock::time_point looked_{};
  bool all_ = false, none_ = true;
};

// The stream of one watch. It owns itself until OnDone().
class WatchStream : public grpc::ServerWriteReactor<Event>,
                    public EventWatcher,
                    public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(EventLog& log, Sight sight, bool audit) : log_(log), sight_(std::move(sight)), audit_(audit) {}

  void Begin(uint64_t after, std::shared_ptr<EventWatches> watches, const std::string& holder, Standing standing) {
    self_ = shared_from_this();
    watches_ = std::move(watches);
    number_ = watches_->Come(holder, standing, [stream = weak_from_this()] {
      if (const std::shared_ptr<WatchStream> self = stream.lock()) self->EndForAnother();
    });
    log_.Watch(after, weak_from_this());
  }
  void Refuse(const grpc::Status& why) {
    self_ = shared_from_this();
    MutexLock lock(mutex_);
    End(why);
  }

  bool Watches() override {
    MutexLock lock(mutex_);
    return !ended_;
  }
  void Take(const AuditRecord& record) override {
    if (!sight_(record)) return;
    Event event;
    FillIn(record, audit_, &event);
    MutexLock lock(mutex_);
    if (ended_) return;
    if (events_.size() == EventCalls::kWaitingMax) {
      return End({grpc::StatusCode::RESOURCE_EXHAUSTED,
                  fmt::format("{} events wait, and are not read: read faster, or ask for fewer", events_.size())});
    }
    events_.push_back(std::move(event));
    if (events_.size() == 1) StartWrite(&events_.front());
  }
  void ThereIsMore(uint64_t number) override {
    MutexLock lock(mutex_);
    if (ended_) return;
    more_after_ = number;
    if (events_.empty()) More();
  }

  void Failed(const Status& why) override {
    MutexLock lock(mutex_);
    End(GrpcStatusOf(why));
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    if (!ok || ended_) return;
    events_.pop_front();
    if (!events_.empty()) return StartWrite(&events_.front());
    if (more_after_ != 0) More();
  }
  void OnCancel() override {
    MutexLock lock(mutex_);
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    const std::shared_ptr<WatchStream> self = std::move(self_);
    if (watches_ != nullptr) watches_->Leave(number_);
  }

 private:
  void EndForAnother() {
    MutexLock lock(mutex_);
    End({grpc::StatusCode::RESOURCE_EXHAUSTED,
         fmt::format("too many watch: {} watches of one holder may, and {} in all, and then his oldest ends",
                     EventWatches::kBounds.of_holder, EventWatches::kBounds.in_all)});
  }
  void More() REQUIRES(mutex_) { log_.Watch(std::exchange(more_after_, 0), weak_from_this()); }
  void End(const grpc::Status& status) REQUIRES(mutex_) {
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  EventLog& log_;
  Sight sight_;  // used in the store's thread
  const bool audit_;
  std::shared_ptr<WatchStream> self_;      // until OnDone()
  std::shared_ptr<EventWatches> watches_;  // null: the call was refused
  uint64_t number_ = 0;                    // in watches_
  Mutex mutex_;
  std::deque<Event> events_ GUARDED_BY(mutex_);  // the first one is being written
  uint64_t more_after_ GUARDED_BY(mutex_) = 0;   // 0: all stored records were taken
  bool ended_ GUARDED_BY(mutex_) = false;
};

grpc::Status WrongName(const std::string& of) {
  return {grpc::StatusCode::INVALID_ARGUMENT,
          fmt::format("'{}' is no server, grant or holder: these have {} bytes at most", Printable(of), kNameBytesMax)};
}

}  // namespace

uint64_t EventWatches::Come(const std::string& holder, Standing standing, std::function<void()> end) {
  std::function<void()> goes;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    number = ++last_;
    ends_[number] = std::move(end);
    HolderShares& shares = standing == Standing::kTrusted ? trusted_ : others_;
    if (const std::optional<HolderShares::Id> oldest = shares.Come(number, holder)) {
      const auto ends = ends_.find(*oldest);
      goes = std::move(ends->second);
      ends_.erase(ends);
    }
  }
  if (goes) goes();
  return number;
}

void EventWatches::Leave(uint64_t number) {
  MutexLock lock(mutex_);
  ends_.erase(number);
  trusted_.Leave(number);
  others_.Leave(number);
}

grpc::Status EventCalls::MaySee(const std::string& holder, bool audit) {
  const std::shared_ptr<const Roles> roles = roles_.Current();
  if (!holder.empty() && (audit ? roles->SeesAll(holder) : roles->RoleOf(holder) != Role::kNobody)) return grpc::Status::OK;
  const std::string who = holder.empty() ? "somebody who cannot be told" : holder;
  const char* const action = audit ? "audit" : "events";
  loop_.Post({PlacerWork::kQuestion, holder}, [who, action](PlacerCore& core, int64_t now_ms) {
    core.Note({.actor = who, .action = action, .outcome = std::string(AuditRecord::kRefused), .text = "this is not his to see"},
              now_ms);
  });
  return {
      grpc::StatusCode::PERMISSION_DENIED,
      who + (audit ? " may not see the audit: it is for whom the placer's policy calls admin or viewer (tessera-placer --policy)"
                   : " may not do this at the placer: ask whoever runs it (tessera-placer --policy)")};
}

grpc::ServerUnaryReactor* EventCalls::ListEvents(grpc::CallbackServerContext* context,
                                                 const control::v1::ListEventsRequest* request, control::v1::EventList* list) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const std::string holder = connections_.HolderOf(context->peer());
  grpc::Status wrong = MaySee(holder, request->audit());
  if (wrong.ok() && request->of().size() > kNameBytesMax) wrong = WrongName(request->of());
  if (wrong.ok() && request->limit() > kListedMax) {
    wrong = {grpc::StatusCode::INVALID_ARGUMENT, fmt::format("limit is {} at most, and not {}", kListedMax, request->limit())};
  }
  if (!wrong.ok()) {
    reactor->Finish(wrong);
    return reactor;
  }
  EventQuestion question{.since_ms = request->since_ms(),
                         .until_ms = request->until_ms() == 0 ? INT64_MAX : request->until_ms(),
                         .sees = Sight(roles_, holder, request->of()),
                         .goes_on = [context] { return !context->IsCancelled(); }};
  if (request->before_number() != 0) question.before = request->before_number();
  if (request->limit() != 0) question.most = request->limit();
  loop_.events().List(std::move(question), [reactor, list, audit = request->audit()](Result<EventPage> page) {
    if (!page.ok()) return reactor->Finish(GrpcStatusOf(page.status()));
    for (const AuditRecord& record : page->records) FillIn(record, audit, list->add_events());
    list->set_more(page->more);
    list->set_last_number(page->last);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerWriteReactor<Event>* EventCalls::WatchEvents(grpc::CallbackServerContext* context,
                                                         const control::v1::WatchEventsRequest* request) {
  const std::string holder = connections_.HolderOf(context->peer());
  const auto stream = std::make_shared<WatchStream>(loop_.events(), Sight(roles_, holder, request->of()), request->audit());
  grpc::Status wrong = MaySee(holder, request->audit());
  if (wrong.ok() && request->of().size() > kNameBytesMax) wrong = WrongName(request->of());
  if (wrong.ok()) {
    stream->Begin(request->after_number(), watches_, holder, connections_.StandingOfHolder(holder));
  } else {
    stream->Refuse(wrong);
  }
  return stream.get();
}

}  // namespace tessera
