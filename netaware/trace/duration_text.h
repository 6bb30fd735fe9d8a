// Times for people. Pure.
#pragma once

#include <string>

namespace tessera {

// "1.234 s", "56.7 ms", "8.9 us".
std::string DurationText(double ns);

}  // namespace tessera
