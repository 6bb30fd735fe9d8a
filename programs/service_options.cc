#include "programs/service_options.h"

namespace tessera {

std::string UnixPathOf(std::string_view url) {
  constexpr std::string_view kScheme = "unix:";
  return url.starts_with(kScheme) ? std::string(url.substr(kScheme.size())) : std::string();
}

}  // namespace tessera
