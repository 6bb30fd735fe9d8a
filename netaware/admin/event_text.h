// What happened at a placer, for people and for programs. Text of the placer is made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/events.pb.h"

namespace tessera {

// `audit`: with who did it.
nlohmann::json AsJson(const control::v1::Event& event, bool audit);
// {"events": [...]}
nlohmann::json AsJson(const control::v1::EventList& list, bool audit);

// A line of which the columns are as wide as the head's, unless a word is longer.
std::string EventHead(bool audit);
std::string EventLine(const control::v1::Event& event, bool audit);

}  // namespace tessera
