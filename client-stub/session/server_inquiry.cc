#include "client-stub/session/server_inquiry.h"

#include <set>
#include <utility>

#include "client-stub/process/ticket_file.h"
#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/query_server.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/server_query.h"

namespace tessera {
namespace {

Result<DeviceSnapshot> Ask(const ServerList::Server& server) {
  ServerQuery query;
  query.spec_hash = kSpecHash;
  query.vgpus = server.vgpus;
  Result<std::vector<std::byte>> ticket = ReadTicket(server.ticket_file);
  if (!ticket.ok()) return ticket.status();
  query.ticket = std::move(*ticket);
  const Result<ServerReport> report = QueryServer(server.unix_path, query, MonotonicNs() + kQueryTimeoutNs);
  if (!report.ok()) return report.status();
  RETURN_IF_ERROR(CheckPeerVersion("server", report.value().wire_version, report.value().spec_hash, kSpecHash));
  return DeviceSnapshot::Decode(report.value().snapshot);
}

}  // namespace

Result<std::vector<AskedServer>> AskServers(const ServerList& list) {
  std::vector<AskedServer> servers;
  for (const ServerList::Server& server : list.servers) {
    Result<DeviceSnapshot> snapshot = Ask(server);
    if (!snapshot.ok() && list.servers.size() == 1) return snapshot.status();
    if (!snapshot.ok()) {
      return Status(snapshot.status().code(), "the server " + server.name + ": " + snapshot.status().message());
    }
    servers.push_back({server.name, std::move(*snapshot)});
  }
  return servers;
}

std::vector<DeviceDisguise> DisguisesOf(const std::vector<AskedServer>& servers) {
  std::vector<DeviceDisguise> disguises;
  std::set<std::string> seen;
  for (size_t i = 0; i < servers.size(); ++i) {
    DeviceDisguise& disguise = disguises.emplace_back();
    disguise.server = static_cast<uint32_t>(i);
    for (const DeviceSnapshot::Device& device : servers[i].snapshot.devices) {
      if (seen.contains(device.UuidText())) disguise.taken_uuids.insert(device.UuidText());
    }
    for (DeviceSnapshot::Device device : servers[i].snapshot.devices) {
      disguise.Apply(&device);
      seen.insert(device.UuidText());
    }
  }
  return disguises;
}

}  // namespace tessera
