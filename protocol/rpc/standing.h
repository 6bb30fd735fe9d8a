// What a service gives its callers, by what they are there.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace tessera {

// Each has connections, calls and memory of its own, so that none is in the way of another.
enum class Standing : size_t {
  kNobody,   // may do nothing: the least
  kUsual,    // whoever may use the service
  kTrusted,  // who runs it: administrators, and processes of its own
};
inline constexpr size_t kStandings = 3;

// Of a holder. Any thread.
using StandingOf = std::function<Standing(const std::string& holder)>;

}  // namespace tessera
