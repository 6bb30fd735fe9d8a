// A timeline as a picture: a row for each vGPU, time from left to right. Pure; any thread.
#pragma once

#include <string>

#include "scheduler/simulate/timeline.h"

namespace tessera {

// Draws [begin_ns, end_ns) of the timeline, which must not be empty. Each row is cut into columns. The height of a column's bar
// is the part of its time in which the vGPU ran; grey is the part in which it waited. The line below shows when it had the token.
// The text is ASCII.
std::string TimelineAsSvg(const Timeline& timeline, int64_t begin_ns, int64_t end_ns);

}  // namespace tessera
