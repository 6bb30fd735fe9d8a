#include "protocol/link/tls/tls_crew.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

namespace tessera {

TlsCrew::TlsCrew(size_t helpers)
    : WorkCrew(std::min(helpers, kHelpersMax), [](std::function<void()> body) { return std::thread(std::move(body)); }) {}

TlsCrew& TlsCrew::OfProcess() {
  // Never destroyed: links may outlive static objects.
  static TlsCrew& crew = *new TlsCrew(std::thread::hardware_concurrency() >= kCoresMin ? kHelpersMax : 0);
  return crew;
}

}  // namespace tessera
