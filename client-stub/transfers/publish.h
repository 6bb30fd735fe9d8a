// What a visit (stream_visit.h) wrote to pinned memory, on its way to the server.
#pragma once

#include <cstdint>

namespace tessera {

class Session;

// What a visit does with pinned memory that it has written and the stream reads next, before it lets the stream go on.
void PublishFromVisit(Session& session, uint64_t address, uint64_t bytes);

}  // namespace tessera
