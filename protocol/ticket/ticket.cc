#include "protocol/ticket/ticket.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "protocol/base/printable.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr size_t kVgpuBytes = 16 + 3 * 4 + 8 + 3 + 8;

// Not empty, and as people would write it.
std::string GetName(Decoder& in) {
  std::string name(in.String(Ticket::kNameBytesMax));
  if (name.empty() || Printable(name) != name) in.Fail();
  return name;
}

template <typename Enum>
void GetEnum(Decoder& in, Enum last, Enum* value) {
  in.Pod(value);
  if (*value > last) in.Fail();
}

void Put(Encoder& out, const TicketVgpu& vgpu) {
  out.Raw(vgpu.gpu);
  out.Pod(vgpu.request);
  out.Pod(vgpu.limit);
  out.Pod(vgpu.tile_sms);
  out.Pod(vgpu.memory_bytes);
  out.Pod(vgpu.memory);
  out.Pod(vgpu.isolation);
  out.Pod(vgpu.priority);
  out.Pod(vgpu.bandwidth);
}

void Get(Decoder& in, TicketVgpu* vgpu) {
  in.Pod(&vgpu->gpu);
  in.Pod(&vgpu->request);
  in.Pod(&vgpu->limit);
  in.Pod(&vgpu->tile_sms);
  in.Pod(&vgpu->memory_bytes);
  GetEnum(in, TicketMemory::kSwap, &vgpu->memory);
  GetEnum(in, TicketIsolation::kPacked, &vgpu->isolation);
  GetEnum(in, TicketPriority::kBestEffort, &vgpu->priority);
  in.Pod(&vgpu->bandwidth);
  if (vgpu->limit == 0 || vgpu->limit > TicketVgpu::kWhole || vgpu->request > vgpu->limit) in.Fail();
}

bool HasOneGpuTwice(const std::vector<TicketVgpu>& vgpus) {
  for (size_t i = 0; i < vgpus.size(); ++i) {
    const auto is_same = [&](const TicketVgpu& other) { return other.gpu == vgpus[i].gpu; };
    if (std::any_of(vgpus.begin(), vgpus.begin() + static_cast<ptrdiff_t>(i), is_same)) return true;
  }
  return false;
}

}  // namespace

std::string GrantText(const Ticket::Grant& grant) {
  std::string text;
  for (const std::byte byte : grant) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::optional<Ticket::Grant> ParseGrant(std::string_view text) {
  Ticket::Grant grant{};
  if (text.size() != 2 * grant.size()) return std::nullopt;
  for (size_t i = 0; i < grant.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    uint8_t value = 0;
    const auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
    if (error != std::errc() || end != digits + 2) return std::nullopt;
    grant[i] = std::byte{value};
  }
  // The same grant has one name.
  return GrantText(grant) == text ? std::optional(grant) : std::nullopt;
}

void Ticket::Encode(Encoder& out) const {
  out.String(cluster);
  out.Raw(grant);
  out.Pod(part);
  out.String(server);
  out.String(holder);
  out.Pod(epoch);
  out.Pod(renewal);
  out.Pod(issued_ms);
  out.Pod(expires_ms);
  out.Pod(processes);
  out.Pod(static_cast<uint32_t>(vgpus.size()));
  for (const TicketVgpu& vgpu : vgpus) Put(out, vgpu);
}

Result<Ticket> Ticket::Decode(std::span<const std::byte> bytes) {
  Decoder in(bytes);
  Ticket ticket;
  ticket.cluster = GetName(in);
  in.Pod(&ticket.grant);
  in.Pod(&ticket.part);
  ticket.server = GetName(in);
  ticket.holder = GetHolder(in);
  in.Pod(&ticket.epoch);
  in.Pod(&ticket.renewal);
  in.Pod(&ticket.issued_ms);
  in.Pod(&ticket.expires_ms);
  in.Pod(&ticket.processes);
  if (ticket.processes == 0 || ticket.processes > kProcessesMax) in.Fail();
  ticket.vgpus.resize(in.CountOf(kVgpusMax, kVgpuBytes));
  for (TicketVgpu& vgpu : ticket.vgpus) Get(in, &vgpu);
  const bool is_whole = in.AtEnd() && !ticket.holder.empty() && !ticket.vgpus.empty() && ticket.part < kPartsMax;
  if (!is_whole || ticket.issued_ms < 0 || ticket.expires_ms <= ticket.issued_ms || HasOneGpuTwice(ticket.vgpus)) {
    return Status(StatusCode::kProtocolViolation, "what was signed is no ticket");
  }
  return ticket;
}

}  // namespace tessera
