#include "client-stub/session/server_plan.h"

#include <string>
#include <utility>

#include "protocol/base/visible_devices.h"

namespace tessera {
namespace {

// One device of the joined list.
struct Joined {
  size_t server;
  std::string own_uuid;  // as its server knows it
};

}  // namespace

SessionPlan PlanSessions(const std::vector<AskedServer>& servers, std::string_view visible) {
  const std::vector<DeviceDisguise> disguises = DisguisesOf(servers);
  std::vector<Joined> devices;
  std::vector<std::string> seen_uuids;  // as this process sees them
  for (size_t i = 0; i < servers.size(); ++i) {
    for (DeviceSnapshot::Device device : servers[i].snapshot.devices) {
      devices.push_back({i, device.UuidText()});
      disguises[i].Apply(&device);
      seen_uuids.push_back(device.UuidText());
    }
  }
  std::vector<size_t> selected;
  if (visible.empty()) {
    for (size_t i = 0; i < devices.size(); ++i) selected.push_back(i);
  } else {
    VisibleDevices named = SelectVisibleDevices(visible, seen_uuids);
    if (named.repeats) return {{}, true};
    selected = std::move(named.numbers);
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
  return {std::move(sessions), false};
}

}  // namespace tessera
