// A placer's events, for people and for programs. The placer's text is made printable. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/events.pb.h"

namespace tessera {

// `audit`: with the caller who caused the event.
nlohmann::json AsJson(const control::v1::Event& event, bool audit);
// {"events": [...]}
nlohmann::json AsJson(const control::v1::EventList& list, bool audit);

// One line of the table. Its columns are as wide as those of the head, unless a word is longer.
std::string EventHead(bool audit);
std::string EventLine(const control::v1::Event& event, bool audit);

}  // namespace tessera
