#include "server/daemon/readings/process_figures.h"

#include <algorithm>

#include "protocol/wire/decoder.h"

namespace tessera {

namespace {

constexpr size_t kOneBytes = 8 + 4 + 4 + 8;

}  // namespace

const ProcessFigures::One* ProcessFigures::Find(uint64_t session, uint32_t device) const {
  const auto found = std::ranges::find_if(list, [&](const One& one) { return one.session == session && one.device == device; });
  return found == list.end() ? nullptr : &*found;
}

void ProcessFigures::Encode(Encoder& out) const {
  out.Pod(told);
  const size_t count = std::min(list.size(), kListMax);
  out.Pod(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    out.Pod(list[i].session);
    out.Pod(list[i].device);
    out.Pod(list[i].sm_percent);
    out.Pod(list[i].used_bytes);
  }
}

Result<ProcessFigures> ProcessFigures::Decode(std::span<const std::byte> message) {
  Decoder in(message);
  ProcessFigures figures;
  in.Pod(&figures.told);
  figures.list.resize(in.CountOf(kListMax, kOneBytes));
  for (One& one : figures.list) {
    in.Pod(&one.session);
    in.Pod(&one.device);
    in.Pod(&one.sm_percent);
    in.Pod(&one.used_bytes);
  }
  if (!in.AtEnd()) return Status(StatusCode::kProtocolViolation, "a malformed answer of the monitor");
  return figures;
}

}  // namespace tessera
