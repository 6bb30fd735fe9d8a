#include "netaware/service/pool_server.h"

#include <span>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

constexpr uint8_t kVersion = 2;
constexpr size_t kTextBytesMax = 256;
constexpr size_t kAddressesMax = 16;
constexpr size_t kGpusMax = 64;

}  // namespace

std::string StoredServer(const JoiningNode& node) {
  const PoolServer& server = node.server;
  Encoder out;
  out.Pod(kVersion);
  out.String(server.id);
  out.String(node.host);
  out.Pod(static_cast<uint32_t>(server.addresses.size()));
  for (const std::string& address : server.addresses) out.String(address);
  out.Pod(static_cast<uint32_t>(server.gpus.size()));
  for (const PoolGpu& gpu : server.gpus) {
    out.String(gpu.uuid);
    out.String(gpu.model);
    out.Pod(gpu.all.share);
    out.Pod(gpu.all.memory_bytes);
    out.Pod(gpu.context_bytes);
  }
  return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
}

Result<JoiningNode> ReadServer(std::string_view value) {
  Decoder in(std::as_bytes(std::span(value)));
  JoiningNode node;
  PoolServer& server = node.server;
  const auto version = in.Pod<uint8_t>();
  if (version == 0 || version > kVersion) in.Fail();
  server.id = in.String(kTextBytesMax);
  if (version > 1) node.host = in.String(kTextBytesMax);
  server.addresses.resize(in.CountOf(kAddressesMax, sizeof(uint32_t)));
  for (std::string& address : server.addresses) address = in.String(kTextBytesMax);
  server.gpus.resize(in.CountOf(kGpusMax, 3 * sizeof(uint32_t) + 2 * sizeof(uint64_t)));
  for (PoolGpu& gpu : server.gpus) {
    gpu.uuid = in.String(kTextBytesMax);
    gpu.model = in.String(kTextBytesMax);
    in.Pod(&gpu.all.share);
    in.Pod(&gpu.all.memory_bytes);
    in.Pod(&gpu.context_bytes);
  }
  if (!in.AtEnd() || server.id.empty()) return Status(StatusCode::kProtocolViolation, "a server that was kept is damaged");
  return node;
}

}  // namespace tessera
