#include "netaware/node/known_placer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/ticket/ticket.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

constexpr const char* kClusterKey = "placer/cluster";
constexpr const char* kKeysKey = "placer/keys";
constexpr const char* kClockKey = "placer/clock";
constexpr uint32_t kForm = 1;
constexpr size_t kKeysMax = 64;
constexpr size_t kKeyBytesMax = 1'000;  // an Ed25519 key in PEM form has 113

std::string TextOf(const Encoder& encoder) {
  return std::string(reinterpret_cast<const char*>(encoder.bytes().data()), encoder.bytes().size());
}

std::string KeysText(const std::vector<std::string>& keys) {
  Encoder out;
  out.Pod(kForm);
  out.Pod(static_cast<uint32_t>(keys.size()));
  for (const std::string& key : keys) out.String(key);
  return TextOf(out);
}

std::string ClockText(int64_t offset_ms) {
  Encoder out;
  out.Pod(kForm);
  out.Pod(offset_ms);
  return TextOf(out);
}

Status Damaged(const char* key) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("the ledger of this server's grants is damaged at '{}': bring a copy back, or "
                            "remove it when no job of the pool runs here",
                            key));
}

bool IsName(const std::string& text) { return !text.empty() && text.size() <= Ticket::kNameBytesMax && Printable(text) == text; }

Result<TicketKeys> KeysOf(const std::vector<std::string>& texts) {
  TicketKeys keys;
  for (const std::string& text : texts) {
    if (Result<uint64_t> added = keys.Add(text); !added.ok()) return added.status();
  }
  return keys;
}

}  // namespace

Result<KnownPlacer> KnownPlacer::Open(Store& store, NodeTime now) {
  KnownPlacer placer(store);
  placer.offset_ms_ = now.wall_ms - now.steady_ms;
  if (const std::optional<StoreEntry> cluster = store.Get(kClusterKey)) {
    if (!IsName(cluster->value)) return Damaged(kClusterKey);
    placer.cluster_ = cluster->value;
  }
  if (const std::optional<StoreEntry> stored = store.Get(kKeysKey)) {
    Decoder in(std::as_bytes(std::span(stored->value)));
    if (in.Pod<uint32_t>() != kForm) in.Fail();
    std::vector<std::string> texts(in.CountOf(kKeysMax, sizeof(uint32_t)));
    for (std::string& text : texts) text = in.String(kKeyBytesMax);
    Result<TicketKeys> keys = KeysOf(texts);
    if (!in.AtEnd() || !keys.ok()) return Damaged(kKeysKey);
    placer.keys_ = std::move(keys).value();
  }
  if (const std::optional<StoreEntry> stored = store.Get(kClockKey)) {
    Decoder in(std::as_bytes(std::span(stored->value)));
    if (in.Pod<uint32_t>() != kForm) in.Fail();
    in.Pod(&placer.stored_wall_ms_);
    if (!in.AtEnd()) return Damaged(kClockKey);
    placer.offset_ms_ += placer.stored_wall_ms_;
  }
  return placer;
}

Status KnownPlacer::Check(const std::string& cluster, const std::vector<std::string>& keys) const {
  if (!IsName(cluster)) return Status(StatusCode::kInvalidArgument, "the placer names no pool");
  if (!cluster_.empty() && cluster != cluster_) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("the placer is of the pool '{}', and this server's ledger of grants is of '{}': correct --placer, or, when "
                    "no job of '{}' runs here, start with another --state",
                    cluster, cluster_, cluster_));
  }
  const bool are_usable = !keys.empty() && keys.size() <= kKeysMax &&
                          std::ranges::all_of(keys, [](const std::string& key) { return key.size() <= kKeyBytesMax; });
  if (!are_usable)
    return Status(StatusCode::kInvalidArgument, fmt::format("the placer names {} keys of tickets, or long ones", keys.size()));
  return KeysOf(keys).status();
}

Status KnownPlacer::Learn(const std::string& cluster, const std::vector<std::string>& keys, int64_t placer_ms, NodeTime now) {
  RETURN_IF_ERROR(Check(cluster, keys));
  Result<TicketKeys> usable = KeysOf(keys);
  const int64_t wall_ms = placer_ms - now.wall_ms;
  const StoreTransaction all = {.changes = {{kClusterKey, cluster}, {kKeysKey, KeysText(keys)}, {kClockKey, ClockText(wall_ms)}}};
  const StoreResult kept = store_->Commit({&all, 1}).front();
  if (kept.outcome != StoreResult::Outcome::kDone) return Status(StatusCode::kResourceExhausted, kept.reason);
  cluster_ = cluster;
  keys_ = std::move(usable).value();
  offset_ms_ = placer_ms - now.steady_ms;
  stored_wall_ms_ = wall_ms;
  return Status::Ok();
}

void KnownPlacer::Learn(int64_t placer_ms, NodeTime now) {
  offset_ms_ = placer_ms - now.steady_ms;
  const int64_t wall_ms = placer_ms - now.wall_ms;
  if (std::abs(wall_ms - stored_wall_ms_) < kDriftMs) return;
  const StoreTransaction clock = {.changes = {{kClockKey, ClockText(wall_ms)}}};
  const StoreResult kept = store_->Commit({&clock, 1}).front();
  if (kept.outcome == StoreResult::Outcome::kDone) {
    stored_wall_ms_ = wall_ms;
  } else {
    LogWarning("the placer's clock is not kept: {}", kept.reason);
  }
}

}  // namespace tessera
