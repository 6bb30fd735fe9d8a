// All that a placer says of one server, GPU or grant, for people and for programs. Text is made of the JSON, which is of what the
// placer said, made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/placement.pb.h"
#include "protocol/base/status.h"

namespace tessera {

// {"server", "addresses", "offered", "problem", "away", "cordon", "gpus": as GpuAsJson()}. kNotFound: there is none of that name,
// with the nearest.
Result<nlohmann::json> ServerAsJson(const control::v1::ServerList& servers, const control::v1::GrantList& grants,
                                    const std::string& name);
// As of `tessera get gpus`, and "grants": what each has of it. `name`: a UUID, or SERVER/NUMBER. kNotFound likewise.
Result<nlohmann::json> GpuAsJson(const control::v1::ServerList& servers, const control::v1::GrantList& grants,
                                 const std::string& name);

// A line for each field, and for each GPU or grant one that is indented.
std::string ServerText(const nlohmann::json& server);
std::string GpuText(const nlohmann::json& gpu);
std::string GrantText(const control::v1::GrantState& grant);

}  // namespace tessera
