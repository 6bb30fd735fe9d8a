#include "netaware/service/pool_server.h"

#include <optional>
#include <span>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

// The stored forms. Those that are not written any more come from older releases.
constexpr uint8_t kWithoutHost = 1, kFirstCordoned = 3, kPlain = 4, kCordoned = 5, kHeldPlain = 6, kHeldCordoned = 7;
constexpr size_t kTextBytesMax = 256;
constexpr size_t kAddressesMax = 16;
constexpr size_t kGpusMax = 64;
constexpr size_t kWordsMax = 8;

void Put(Encoder& out, const std::vector<std::string>& words) {
  out.Pod(static_cast<uint32_t>(words.size()));
  for (const std::string& word : words) out.String(word);
}

void Put(Encoder& out, const std::optional<uint32_t>& number) {
  out.Pod(static_cast<uint8_t>(number.has_value()));
  out.Pod(number.value_or(0));
}

std::optional<uint32_t> NumberFrom(Decoder& in) {
  const bool is_there = in.Pod<uint8_t>() != 0;
  const auto number = in.Pod<uint32_t>();
  return is_there ? std::optional(number) : std::nullopt;
}

std::vector<std::string> WordsFrom(Decoder& in) {
  std::vector<std::string> words(in.CountOf(kWordsMax, sizeof(uint32_t)));
  for (std::string& word : words) word = in.String(kTextBytesMax);
  return words;
}

void Put(Encoder& out, const ServerCordon& cordon) {
  out.String(cordon.reason);
  out.String(cordon.by);
  out.Pod(static_cast<uint8_t>(cordon.drains));
  out.Pod(static_cast<uint8_t>(cordon.ends_ms.has_value()));
  out.Pod(cordon.ends_ms.value_or(0));
}

ServerCordon CordonFrom(Decoder& in) {
  ServerCordon cordon;
  cordon.reason = in.String(ServerCordon::kReasonBytesMax);
  cordon.by = in.String(kTextBytesMax);
  cordon.drains = in.Pod<uint8_t>() != 0;
  const bool ends = in.Pod<uint8_t>() != 0;
  const auto ends_ms = in.Pod<int64_t>();
  if (ends) cordon.ends_ms = ends_ms;
  return cordon;
}

}  // namespace

std::string StoredServer(const PoolServer& server, const std::string& host, const ServerCordon* cordon) {
  Encoder out;
  out.Pod(cordon == nullptr ? kHeldPlain : kHeldCordoned);
  out.String(server.id);
  out.String(host);
  out.String(server.holder);
  out.Pod(static_cast<uint32_t>(server.addresses.size()));
  for (const std::string& address : server.addresses) out.String(address);
  out.Pod(static_cast<uint32_t>(server.gpus.size()));
  for (const PoolGpu& gpu : server.gpus) {
    out.String(gpu.uuid);
    out.String(gpu.model);
    out.Pod(gpu.all.share);
    out.Pod(gpu.all.memory_bytes);
    out.Pod(gpu.context_bytes);
    out.Pod(gpu.kept_share);
    Put(out, gpu.isolations);
    Put(out, gpu.priorities);
    out.String(gpu.pci);
    Put(out, gpu.numa);
    Put(out, gpu.pci_group);
  }
  if (cordon != nullptr) Put(out, *cordon);
  return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
}

Result<KeptServer> ReadServer(std::string_view value) {
  Decoder in(std::as_bytes(std::span(value)));
  KeptServer kept;
  PoolServer& server = kept.is;
  const auto form = in.Pod<uint8_t>();
  if (form < kWithoutHost || form > kHeldCordoned) in.Fail();
  server.id = in.String(kTextBytesMax);
  if (form != kWithoutHost) kept.host = in.String(kTextBytesMax);
  if (form >= kHeldPlain) server.holder = in.String(kTextBytesMax);
  server.addresses.resize(in.CountOf(kAddressesMax, sizeof(uint32_t)));
  for (std::string& address : server.addresses) address = in.String(kTextBytesMax);
  server.gpus.resize(in.CountOf(kGpusMax, 3 * sizeof(uint32_t) + 2 * sizeof(uint64_t)));
  for (PoolGpu& gpu : server.gpus) {
    gpu.uuid = in.String(kTextBytesMax);
    gpu.model = in.String(kTextBytesMax);
    in.Pod(&gpu.all.share);
    in.Pod(&gpu.all.memory_bytes);
    in.Pod(&gpu.context_bytes);
    if (form < kPlain) continue;
    in.Pod(&gpu.kept_share);
    gpu.isolations = WordsFrom(in);
    gpu.priorities = WordsFrom(in);
    gpu.pci = in.String(kTextBytesMax);
    gpu.numa = NumberFrom(in);
    gpu.pci_group = NumberFrom(in);
  }
  if (form == kHeldCordoned || form == kCordoned || form == kFirstCordoned) kept.cordon = CordonFrom(in);
  if (!in.AtEnd() || server.id.empty()) return Status(StatusCode::kProtocolViolation, "a server that was kept is damaged");
  return kept;
}

}  // namespace tessera
