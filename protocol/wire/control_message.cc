#include "protocol/wire/control_message.h"

namespace tessera {

ControlKind ControlKindOf(std::span<const std::byte> message) {
  Decoder in(message);
  const auto magic = in.Pod<uint32_t>();
  const auto kind = in.Pod<uint32_t>();
  if (!in.ok() || magic != kControlMagic || kind > static_cast<uint32_t>(ControlKind::kServerReport)) return ControlKind::kNone;
  return static_cast<ControlKind>(kind);
}

}  // namespace tessera
