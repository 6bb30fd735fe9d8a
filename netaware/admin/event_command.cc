#include "netaware/admin/event_command.h"

#include <grpcpp/client_context.h>
#include <time.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "generated/control/events.grpc.pb.h"
#include "netaware/admin/event_text.h"
#include "netaware/admin/placer_call.h"
#include "netaware/admin/placer_watch.h"
#include "netaware/admin/yaml_text.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/vgpu/usage_time.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::Event;
using control::v1::EventList;
using control::v1::EventService;

constexpr int64_t kMsOfS = 1'000;
constexpr int64_t kDayS = 86'400;

class EventCall {
 public:
  explicit EventCall(const PoolOptions& options) : options_(options), audit_(options.command == "audit") {}

  int Run(const PlacerCall& call) {
    if (const grpc::Status status = List(call.channel()); !status.ok()) return call.SayRefusal(status);
    if (const int code = PrintList(); code != kExitOk || !options_.watch) return code;
    return WatchPlacer(options_, call,
                       {.once = [this](const Channel& channel, int* code) { return WatchOnce(channel, code); },
                        .ask = [this](const Channel& channel) { return Ask(channel); }});
  }

 private:
  using Channel = std::shared_ptr<grpc::Channel>;

  // Reads all pages into `list_`.
  grpc::Status List(const Channel& channel) {
    const auto stub = EventService::NewStub(channel);
    const int64_t now = time(nullptr);
    int64_t since = now - kDayS, until = 0;
    if (!options_.since.empty()) (void)ParseUsageTime(options_.since, now, &since);
    if (!options_.until.empty()) (void)ParseUsageTime(options_.until, now, &until);
    control::v1::ListEventsRequest request;
    request.set_since_ms(since * kMsOfS);
    request.set_until_ms(until * kMsOfS);
    request.set_of(Printable(options_.of));
    request.set_audit(audit_);
    std::vector<Event> events;  // newest first
    for (;;) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kPlacerAnswerWait);
      EventList page;
      const grpc::Status status = stub->ListEvents(&context, request, &page);
      if (!status.ok()) return status;
      if (request.before_number() == 0) after_ = page.last_number();
      for (auto event = page.mutable_events()->rbegin(); event != page.mutable_events()->rend(); ++event)
        events.push_back(std::move(*event));
      if (!page.more() || page.events().empty()) break;
      request.set_before_number(events.back().number());
    }
    for (auto event = events.rbegin(); event != events.rend(); ++event) *list_.add_events() = std::move(*event);
    return grpc::Status::OK;
  }

  int PrintList() {
    if (IsData(options_.output) && !options_.watch) return Print(DataText(AsJson(list_, audit_), options_.output));
    std::string text = IsData(options_.output) ? "" : EventHead(audit_);
    for (const Event& event : list_.events()) text += OneLine(event);
    return Print(text);
  }
  std::string OneLine(const Event& event) const {
    return IsData(options_.output) ? DataPart(AsJson(event, audit_), options_.output) : EventLine(event, audit_);
  }

  // Reads one stream, which begins after the last printed event.
  grpc::Status WatchOnce(const Channel& channel, int* code) {
    const auto stub = EventService::NewStub(channel);
    grpc::ClientContext context;
    control::v1::WatchEventsRequest request;
    request.set_after_number(after_);
    request.set_of(Printable(options_.of));
    request.set_audit(audit_);
    const std::unique_ptr<grpc::ClientReader<Event>> stream = stub->WatchEvents(&context, request);
    Event event;
    while (stream->Read(&event)) {
      after_ = event.number();
      if (*code = Print(OneLine(event)); *code != kExitOk) {
        context.TryCancel();
        break;
      }
    }
    return stream->Finish();
  }
  // Ok if the placer answers.
  grpc::Status Ask(const Channel& channel) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPlacerAnswerWait);
    control::v1::ListEventsRequest request;
    request.set_since_ms(INT64_MAX);  // none
    request.set_audit(audit_);
    EventList none;
    return EventService::NewStub(channel)->ListEvents(&context, request, &none);
  }

  const PoolOptions& options_;
  const bool audit_;
  EventList list_;
  uint64_t after_ = 0;
};

}  // namespace

int EventCommand(const PoolOptions& options) {
  return AtPlacer(options, [&](const PlacerCall& call) { return EventCall(options).Run(call); });
}

}  // namespace tessera
