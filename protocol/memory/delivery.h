// Bounds of deliveries: copies from device memory to pinned memory that only the client has, where no pages are shared. The
// worker keeps the bytes of each delivery in a slot of its own until the stream has written them. Then it sends them
// (wire/record.h, kDelivery). Both sides count by these bounds, so every copy that a client asks for finds a slot: at a bound the
// client asks for no more until it has heard of earlier ones.
#pragma once

#include <cstdint>

namespace tessera {

// The most bytes of one delivery.
inline constexpr uint64_t kDeliveryBytesMax = uint64_t{64} << 10;
// The most bytes of a small delivery, such as a number that a program looks at.
inline constexpr uint64_t kSmallDeliveryBytesMax = 192;
// The most deliveries of a session at once.
inline constexpr uint64_t kSmallDeliveriesMax = 2048;
inline constexpr uint64_t kLargeDeliveriesMax = 32;

}  // namespace tessera
