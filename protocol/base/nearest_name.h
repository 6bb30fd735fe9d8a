// The name that somebody may have meant. Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

namespace tessera {

// Which of `names` needs the fewest changes from `name`: characters put in, taken out or changed. Of equally near names the
// first; empty: there are no names. Only the first 64 bytes of a name count.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace tessera
