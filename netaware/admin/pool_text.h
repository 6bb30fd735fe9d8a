// A pool's servers, GPUs and grants, for people and for programs. The placer's text is made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/control/placement.pb.h"

namespace tessera {

// The printed bytes of a placer's sentence, which may list everything that does not fit.
inline constexpr size_t kPlacerSentenceBytesMax = 4'096;

// {"servers": [...]}, {"gpus": [...]}, {"grants": [...]}: in the placer's order. Sizes are in bytes, shares are fractions of a
// GPU's time.
nlohmann::json ServersAsJson(const control::v1::ServerList& list);
nlohmann::json GpusAsJson(const control::v1::ServerList& list);
nlohmann::json AsJson(const control::v1::GrantState& grant);
nlohmann::json AsJson(const control::v1::GrantList& list);

// Rows of a table; the first row has the headings.
std::vector<std::vector<std::string>> ServersRows(const control::v1::ServerList& list, bool wide);
std::vector<std::vector<std::string>> GpusRows(const control::v1::ServerList& list, bool wide);
std::vector<std::vector<std::string>> GrantsRows(const control::v1::GrantList& list, bool wide);
// The waiting grants: the holder, the request and the reason why it waits.
std::vector<std::vector<std::string>> RequestsRows(const control::v1::GrantList& waiting);
control::v1::GrantList WaitingOf(const control::v1::GrantList& list);
// Tables; for an empty list the head alone. `wide`: with more columns.
std::string ServersText(const control::v1::ServerList& list, bool wide);
std::string GpusText(const control::v1::ServerList& list, bool wide);
std::string GrantsText(const control::v1::GrantList& list, bool wide);

// The size at `key` of such JSON, as "20 GiB".
std::string BytesAt(const nlohmann::json& of, const char* key);

// A grant's GPUs, as "2 x NVIDIA H200 of gpu7 (0.5 of each, 20 GiB)"; "-": none.
std::string GpusOf(const control::v1::GrantState& grant);
// A grant's request, as "2 GPUs, 0.5:1 of each, 20 GiB".
std::string AskedOf(const control::v1::GrantState& grant);

}  // namespace tessera
