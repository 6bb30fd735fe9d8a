// Random programs, ordered (order.h) and so with one outcome.
#pragma once

#include "program.h"

namespace order_programs {

// Programs of one size run in one world (runner.h): kProgramsOfWorld of successive seeds have the same.
inline constexpr uint64_t kProgramsOfWorld = 16;
size_t WorldBytes(uint64_t seed);

// `native`: order.h. `two_processes`: whether there is a second one (other_process.h).
Program Generate(uint64_t seed, bool native, bool two_processes);

// The program without operation `index`.
Program Without(const Program& program, size_t index);

}  // namespace order_programs
