// A server's report as text for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "netaware/cli/server_list.h"
#include "protocol/wire/server_query.h"

namespace tessera {

// One line for the server and one for each device; each ends with a newline.
std::string DescribeDevices(const std::string& url, const ServerReport& report);
// One line for each divided device, followed by one for each of its vGPUs; empty for a server without vGPUs. `narrow`: the most
// important columns, 60 characters wide.
std::string DescribeVgpus(const ServerReport& report, bool narrow = false);
// The holder of a session: "alice@gpu7 (uid:1000)".
std::string DescribeHolder(const ServerReport::Session& session);
// One line about all sessions that the caller may not see; empty if there are none.
std::string DescribeOthers(const ServerReport& report);
// All of these texts, and one line for each session's use.
std::string DescribeServer(const std::string& url, const ServerReport& report);

// The same as an object. Its keys are stable: server, url, driver, driver_release, cuda_version, sessions, sessions_max,
// ending, devices [{name, uuid, memory_bytes, memory_used_bytes, gpu_percent, power_milliwatts, temperature_celsius}], uses
// [{pid, device, session, used_bytes, gpu_percent}], session_list [{session, pid, age_seconds, program, vgpu, user, host,
// name}], holders [{name, sessions, starts_waiting, shared_objects, descriptors, host_memory_bytes}], other_sessions, audit,
// vgpu_problem, vgpus [{name, device, request, limit, priority, sessions, waits, got_1s, got_10s, waited_ms, queued_before_ms,
// queued_before_runs}]; a device also has policy, sharing, unreported_sessions, unreported_memory_sessions, other_sessions and
// others_used_bytes. Unknown values are absent.
nlohmann::json ServerAsJson(const std::string& url, const ServerReport& report);
// The version of the JSON for programs: it increases when a key is removed or changes its meaning.
inline constexpr int kServerSchemaVersion = 1;
// One server or several: {schema_version, servers [...]}, in their order. A server that does not answer has url, error (a
// sentence) and exit_code alone.
nlohmann::json ServersAsJson(const std::vector<ReachedServer>& servers);
// Any object as text, without a newline; `indent` -1: in one line. Bytes that are not UTF-8 are replaced.
std::string JsonText(const nlohmann::json& json, int indent);

}  // namespace tessera
