// All details of one server, GPU or grant of a pool, for people and for programs. The text for people is made from the JSON,
// whose strings are the placer's, made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/placement.pb.h"
#include "protocol/base/status.h"

namespace tessera {

// {"server", "addresses", "offered", "problem", "away", "cordon", "gpus": as GpuAsJson()}. kNotFound: no server has that name;
// the sentence names the nearest one.
Result<nlohmann::json> ServerAsJson(const control::v1::ServerList& servers, const control::v1::GrantList& grants,
                                    const std::string& name);
// As in `tessera get gpus`, with "grants": each grant's part of the GPU. `name`: a UUID, or SERVER/NUMBER. kNotFound likewise.
Result<nlohmann::json> GpuAsJson(const control::v1::ServerList& servers, const control::v1::GrantList& grants,
                                 const std::string& name);

// One line for each field, and one indented line for each GPU or grant.
std::string ServerText(const nlohmann::json& server);
std::string GpuText(const nlohmann::json& gpu);
std::string GrantText(const control::v1::GrantState& grant);

}  // namespace tessera
