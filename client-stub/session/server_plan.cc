#include "client-stub/session/server_plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

namespace tessera {
namespace {

// One device of the joined list.
struct Joined {
  size_t server;
  std::string own_uuid;   // as its server knows it
  std::string seen_uuid;  // as this process sees it
};

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The device that one entry of the list names.
std::optional<size_t> Named(const std::vector<Joined>& devices, std::string_view entry) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error == std::errc() && end == entry.data() + entry.size()) {
    return number < devices.size() ? std::optional(number) : std::nullopt;
  }
  const std::string prefix = LowerCase(entry);
  if (!prefix.starts_with("gpu-")) return std::nullopt;
  std::optional<size_t> found;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!LowerCase(devices[i].seen_uuid).starts_with(prefix)) continue;
    if (found) return std::nullopt;  // it must be clear which
    found = i;
  }
  return found;
}

std::vector<size_t> Select(const std::vector<Joined>& devices, std::string_view visible) {
  std::vector<size_t> selected;
  while (!visible.empty()) {
    const size_t comma = visible.find(',');
    const std::optional<size_t> device = Named(devices, Trimmed(visible.substr(0, comma)));
    if (!device) break;
    // A device that is named twice makes the list invalid, as natively.
    if (std::find(selected.begin(), selected.end(), *device) != selected.end()) return {};
    selected.push_back(*device);
    if (comma == std::string_view::npos) break;
    visible.remove_prefix(comma + 1);
  }
  return selected;
}

}  // namespace

std::vector<PlannedSession> PlanSessions(const std::vector<AskedServer>& servers, std::string_view visible) {
  const std::vector<DeviceDisguise> disguises = DisguisesOf(servers);
  std::vector<Joined> devices;
  for (size_t i = 0; i < servers.size(); ++i) {
    for (DeviceSnapshot::Device device : servers[i].snapshot.devices) {
      std::string own = device.UuidText();
      disguises[i].Apply(&device);
      devices.push_back({i, std::move(own), device.UuidText()});
    }
  }
  std::vector<size_t> selected;
  if (visible.empty()) {
    for (size_t i = 0; i < devices.size(); ++i) selected.push_back(i);
  } else {
    selected = Select(devices, visible);
  }
  std::vector<PlannedSession> sessions;
  for (size_t server = 0; server < servers.size(); ++server) {
    PlannedSession session{server, {}};
    for (size_t ordinal = 0; ordinal < selected.size(); ++ordinal) {
      const Joined& device = devices[selected[ordinal]];
      if (device.server != server) continue;
      session.place.ordinals.push_back(static_cast<CUdevice>(ordinal));
      // By UUID: the order in which a server counts its devices depends on variables of the process.
      if (!visible.empty()) session.place.devices += (session.place.devices.empty() ? "" : ",") + device.own_uuid;
    }
    if (session.place.ordinals.empty()) continue;
    session.place.index = static_cast<uint32_t>(sessions.size());
    session.place.server = servers[server].name;
    session.place.disguise = disguises[server];
    sessions.push_back(std::move(session));
  }
  return sessions;
}

}  // namespace tessera
