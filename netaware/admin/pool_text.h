// What a placer says of its pool, for people and for programs. Text of the placer is made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/control/placement.pb.h"

namespace tessera {

// Of a placer's sentence that is printed: it may name a list of what does not fit.
inline constexpr size_t kPlacerSentenceBytesMax = 4'096;

// {"servers": [...]}, {"gpus": [...]}, {"grants": [...]}: in the placer's order. Sizes are bytes, shares parts of a GPU's time.
nlohmann::json ServersAsJson(const control::v1::ServerList& list);
nlohmann::json GpusAsJson(const control::v1::ServerList& list);
nlohmann::json AsJson(const control::v1::GrantState& grant);
nlohmann::json AsJson(const control::v1::GrantList& list);

// Rows of a table, of which the first are headings.
std::vector<std::vector<std::string>> ServersRows(const control::v1::ServerList& list, bool wide);
std::vector<std::vector<std::string>> GpusRows(const control::v1::ServerList& list, bool wide);
std::vector<std::vector<std::string>> GrantsRows(const control::v1::GrantList& list, bool wide);
// Of those that wait, who wants what, and why he waits.
std::vector<std::vector<std::string>> RequestsRows(const control::v1::GrantList& waiting);
control::v1::GrantList WaitingOf(const control::v1::GrantList& list);
// Tables, of an empty list its head alone. `wide`: with more columns.
std::string ServersText(const control::v1::ServerList& list, bool wide);
std::string GpusText(const control::v1::ServerList& list, bool wide);
std::string GrantsText(const control::v1::GrantList& list, bool wide);

// A size of such JSON, as "20 GiB".
std::string BytesAt(const nlohmann::json& of, const char* key);

// What a grant has, as "2 x NVIDIA H200 of gpu7 (0.5 of each, 20 GiB)"; "-": nothing.
std::string GpusOf(const control::v1::GrantState& grant);
// What was asked for, as "2 GPUs, 0.5:1 of each, 20 GiB".
std::string AskedOf(const control::v1::GrantState& grant);

}  // namespace tessera
