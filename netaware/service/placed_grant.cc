#include "netaware/service/placed_grant.h"

#include <span>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr uint8_t kPlacedVersion = 2;
constexpr size_t kPlacedTextBytesMax = 256;
constexpr size_t kModelsMax = 64;

}  // namespace

std::string KeyOfPlaced(const GrantId& grant) { return std::string(kPlacedKeys) + GrantText(grant); }

std::string StoredPlaced(const PlacedGrant& grant) {
  Encoder out;
  out.Pod(kPlacedVersion);
  out.Pod(grant.ask.id);
  out.String(grant.ask.holder);
  out.String(grant.request_id);
  const Wish& wish = grant.ask.wish;
  out.Pod(wish.gpus);
  out.Pod(wish.share);
  out.Pod(wish.memory_bytes.has_value());
  out.Pod(wish.memory_bytes.value_or(0));
  out.Pod(wish.processes);
  out.Pod(static_cast<uint32_t>(wish.models.size()));
  for (const std::string& model : wish.models) out.String(model);
  out.Pod(wish.same_server);
  out.String(wish.isolation);
  out.String(wish.priority);
  out.Pod(grant.ask.limit);
  out.Pod(grant.ask.wait_ms);
  out.Pod(static_cast<uint32_t>(grant.parts.size()));
  for (const PlacedPart& part : grant.parts) {
    out.String(part.server);
    out.Pod(static_cast<uint32_t>(part.gpus.size()));
    for (const PlacedGpu& gpu : part.gpus) {
      out.String(gpu.uuid);
      out.String(gpu.model);
      out.Pod(gpu.number);
      out.Pod(gpu.memory_bytes);
    }
  }
  return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
}

Result<PlacedGrant> ReadPlaced(std::string_view value) {
  Decoder in(std::as_bytes(std::span(value)));
  PlacedGrant grant;
  if (in.Pod<uint8_t>() != kPlacedVersion) in.Fail();
  in.Pod(&grant.ask.id);
  grant.ask.holder = GetHolder(in);
  grant.request_id = in.String(kPlacedTextBytesMax);
  Wish& wish = grant.ask.wish;
  in.Pod(&wish.gpus);
  in.Pod(&wish.share);
  const bool has_memory = in.Pod<bool>();
  const auto memory_bytes = in.Pod<uint64_t>();
  if (has_memory) wish.memory_bytes = memory_bytes;
  in.Pod(&wish.processes);
  wish.models.resize(in.CountOf(kModelsMax, sizeof(uint32_t)));
  for (std::string& model : wish.models) model = in.String(kPlacedTextBytesMax);
  in.Pod(&wish.same_server);
  wish.isolation = in.String(kPlacedTextBytesMax);
  wish.priority = in.String(kPlacedTextBytesMax);
  in.Pod(&grant.ask.limit);
  in.Pod(&grant.ask.wait_ms);
  grant.parts.resize(in.CountOf(Placement::kPartsMax, 2 * sizeof(uint32_t)));
  for (PlacedPart& part : grant.parts) {
    part.server = in.String(kPlacedTextBytesMax);
    part.gpus.resize(in.CountOf(Placement::kGpusOfPartMax, 3 * sizeof(uint32_t) + sizeof(uint64_t)));
    for (PlacedGpu& gpu : part.gpus) {
      gpu.uuid = in.String(kPlacedTextBytesMax);
      gpu.model = in.String(kPlacedTextBytesMax);
      in.Pod(&gpu.number);
      in.Pod(&gpu.memory_bytes);
    }
  }
  if (!in.AtEnd() || grant.parts.empty()) return Status(StatusCode::kProtocolViolation, "a grant that was kept is damaged");
  return grant;
}

}  // namespace tessera
