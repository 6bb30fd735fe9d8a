// A timeline as a picture: a row for each vGPU, time from left to right. Pure; any thread.
#pragma once

#include <string>

#include "scheduler/simulate/timeline.h"

namespace tessera {

// Of [begin_ns, end_ns) of the timeline, which has a length. Each row is cut into columns: the height of a column's bar is the
// part of its time in which the vGPU ran, grey is the part in which it waited, the line below is where it had the token. ASCII
// alone.
std::string TimelineAsSvg(const Timeline& timeline, int64_t begin_ns, int64_t end_ns);

}  // namespace tessera
