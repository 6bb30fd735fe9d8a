// Deliveries: copies from device memory to pinned memory that only the client has, where no pages are shared. The worker keeps
// the bytes of each in a slot of its own until the stream has written them, then tells them (wire/record.h, kDelivery). Both
// sides count by these bounds, so that there is a slot for every copy that a client asks for: it asks for no more before it has
// heard of earlier ones.
#pragma once

#include <cstdint>

namespace tessera {

// Of one copy.
inline constexpr uint64_t kDeliveryBytesMax = uint64_t{64} << 10;
// Small ones: numbers that a program looks at.
inline constexpr uint64_t kSmallDeliveryBytesMax = 192;
// Of a session, at once.
inline constexpr uint64_t kSmallDeliveriesMax = 2048;
inline constexpr uint64_t kLargeDeliveriesMax = 32;

}  // namespace tessera
