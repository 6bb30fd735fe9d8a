// The name that somebody may have meant. Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

namespace tessera {

// Of `names` the one that is made of `name` by the fewest characters that are put in, taken out or changed; of equally near ones
// the first. Empty: there are no names. Of longer ones the first 64 bytes are looked at.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace tessera
