// The sessions of a server as `tessera top` shows them. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/server_query.h"

namespace tessera {

// What comes first: the lowest number of a session, the most memory, the highest load, the longest age.
enum class TopOrder { kSession, kMemory, kLoad, kAge };

// "session", "memory", "load", "age", as --sort takes them.
std::optional<TopOrder> TopOrderOf(std::string_view name);
// The key that chooses it: the first letter of its name.
std::optional<TopOrder> TopOrderOf(char key);

// A heading, and a line for each session and device that it uses; one for a session that uses none. Within 60 columns but for the
// last one, which says what program it is and whose.
std::string SessionTable(const ServerReport& report, TopOrder order);

}  // namespace tessera
