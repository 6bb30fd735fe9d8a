#include "netaware/admin/event_text.h"

#include <fmt/core.h>

#include "netaware/vgpu/usage_time.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr size_t kTextBytesMax = 1'024;

std::string Word(const std::string& text) { return text.empty() ? "-" : Printable(text, kTextBytesMax); }

// "of gpu7: 2 GPUs"; the holder comes first if the line does not name him elsewhere.
std::string TextOf(const control::v1::Event& event, bool audit) {
  std::string text = Printable(event.text(), kTextBytesMax);
  if (!audit && !event.holder().empty()) text = Printable(event.holder()) + (text.empty() ? "" : ": " + text);
  return text.empty() ? "-" : text;
}

std::string Line(const std::string& time, const std::string& actor, const std::string& action, const std::string& outcome,
                 const std::string& object, const std::string& text, bool audit) {
  if (audit) return fmt::format("{:<20}  {:<14}  {:<8}  {:<8}  {:<32}  {}\n", time, actor, action, outcome, object, text);
  return fmt::format("{:<20}  {:<8}  {:<8}  {:<32}  {}\n", time, action, outcome, object, text);
}

}  // namespace

nlohmann::json AsJson(const control::v1::Event& event, bool audit) {
  nlohmann::json servers = nlohmann::json::array();
  for (const std::string& server : event.servers()) servers.push_back(Printable(server));
  nlohmann::json json = {{"number", event.number()},
                         {"time_ms", event.time_ms()},
                         {"time", UsageTimeText(event.time_ms() / 1'000)},
                         {"action", Printable(event.action())},
                         {"outcome", Printable(event.outcome())},
                         {"object", Printable(event.object(), kTextBytesMax)},
                         {"holder", Printable(event.holder())},
                         {"servers", std::move(servers)},
                         {"text", Printable(event.text(), kTextBytesMax)}};
  if (audit) json["actor"] = Printable(event.actor());
  return json;
}

nlohmann::json AsJson(const control::v1::EventList& list, bool audit) {
  nlohmann::json events = nlohmann::json::array();
  for (const control::v1::Event& event : list.events()) events.push_back(AsJson(event, audit));
  return {{"events", std::move(events)}};
}

std::string EventHead(bool audit) { return Line("TIME", "ACTOR", "ACTION", "OUTCOME", "OF", "WHAT", audit); }

std::string EventLine(const control::v1::Event& event, bool audit) {
  return Line(UsageTimeText(event.time_ms() / 1'000), Word(event.actor()), Word(event.action()), Word(event.outcome()),
              Word(event.object()), TextOf(event, audit), audit);
}

}  // namespace tessera
