// The two ends of a copy of a box, and whether the driver accepts them. Calling thread only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/transfers/host_rows.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

// One end of a copy, as the server knows it.
struct ResolvedEnd {
  HandleId array;
  uint64_t base = 0;  // as given; the box starts at first()
  uint64_t x = 0, y = 0, z = 0;
  uint64_t pitch = 0, rows = 0;
  Range extent;  // of the whole box
  Place place = Place::kDevice;

  bool is_array() const { return !array.is_null(); }
  bool ordinary() const { return !is_array() && (place == Place::kPageable || place == Place::kPrivate); }
};

// A part of the box that is copied.
struct SubBox {
  uint64_t x = 0, y = 0, z = 0;  // from the box's own corner
  uint64_t width = 0, height = 0, depth = 0;
  uint64_t bytes() const { return width * height * depth; }
};
// The rows of a sub-box, for an end in ordinary memory.
HostRows RowsOf(const ResolvedEnd& end, const SubBox& sub);

// Fills in what the caller left to the driver (a pitch of 0 means packed rows, a height of 0 packed slices; measured:
// offsets count), and checks. False when the call failed (CUDA_ERROR_INVALID_VALUE). The box has bytes. `check_rows`: as of
// CopyBox.
bool ResolveEnds(Call& call, const CUDA_MEMCPY3D& box, bool check_rows, ResolvedEnd* from, ResolvedEnd* to);

// The ends of a copy in memory that only this process has.
struct BoxEnds {
  bool from_private = false;
  bool to_private = false;
  bool pageable = false;  // a private end is not registered
  HostRows from, to;      // only what is private
  // Of the other ends, if they are no arrays: the addresses that the server knows them by.
  uint64_t from_base = 0;
  uint64_t to_base = 0;
};
// Looks at both ends and checks them; a box of no bytes has none. False when the call failed (CUDA_ERROR_INVALID_VALUE).
bool FindEnds(Call& call, const CUDA_MEMCPY3D& box, BoxEnds* ends);

// The 2D form's fields in the 3D form.
CUDA_MEMCPY3D BoxOf(const CUDA_MEMCPY2D& copy);

}  // namespace tessera
