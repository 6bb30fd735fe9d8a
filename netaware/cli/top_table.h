// The table of a server's sessions in `tessera top`. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protocol/wire/server_query.h"

namespace tessera {

// The sort order: lowest session number, most memory, highest load or longest age first.
enum class TopOrder { kSession, kMemory, kLoad, kAge };

// "session", "memory", "load", "age", the values of --sort.
std::optional<TopOrder> TopOrderOf(std::string_view name);
// The order for a key: the first letter of its name.
std::optional<TopOrder> TopOrderOf(char key);

// A heading, and one line for each device that a session uses; one line for a session without a device. The lines are 60
// characters wide, apart from the last column, which has the program and its user.
std::string SessionTable(const ServerReport& report, TopOrder order);

}  // namespace tessera
