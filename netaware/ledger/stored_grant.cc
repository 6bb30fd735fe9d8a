#include "netaware/ledger/stored_grant.h"

#include <fmt/core.h>

#include <span>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"

namespace tessera {
namespace {

constexpr uint32_t kForm = 2;

std::string TextOf(const Encoder& encoder) {
  return std::string(reinterpret_cast<const char*>(encoder.bytes().data()), encoder.bytes().size());
}

Status IsNone(std::string_view what) {
  return Status(StatusCode::kProtocolViolation, fmt::format("what was stored is no {}", what));
}

}  // namespace

std::string KeyOf(const Ticket::Grant& grant) { return std::string(kGrantKeys) + GrantText(grant); }

std::string StoredForm(const LedgerGrant& grant) {
  Encoder out;
  out.Pod(kForm);
  out.Pod(grant.state);
  out.Pod(grant.until_ms);
  if (grant.state == LedgerGrant::State::kReleased) {
    out.Raw(grant.ticket.grant);
  } else {
    Encoder ticket;
    grant.ticket.Encode(ticket);
    out.Bytes(ticket.bytes());
    out.Pod(grant.released_until_ms);
  }
  return TextOf(out);
}

std::string StoredForm(uint64_t epoch) {
  Encoder out;
  out.Pod(kForm);
  out.Pod(epoch);
  return TextOf(out);
}

Result<LedgerGrant> StoredGrant(std::string_view value) {
  Decoder in(std::as_bytes(std::span(value)));
  LedgerGrant grant;
  if (in.Pod<uint32_t>() != kForm) in.Fail();
  in.Pod(&grant.state);
  if (grant.state > LedgerGrant::State::kReleased) in.Fail();
  in.Pod(&grant.until_ms);
  if (grant.state == LedgerGrant::State::kReleased) {
    in.Pod(&grant.ticket.grant);
    if (!in.AtEnd()) return IsNone("grant");
    return grant;
  }
  const std::span<const std::byte> bytes = in.Bytes(Decoder::kWhatRemains);
  in.Pod(&grant.released_until_ms);
  if (!in.AtEnd()) return IsNone("grant");
  Result<Ticket> ticket = Ticket::Decode(bytes);
  if (!ticket.ok()) return IsNone("grant");
  grant.ticket = std::move(ticket).value();
  return grant;
}

Result<uint64_t> StoredEpoch(std::string_view value) {
  Decoder in(std::as_bytes(std::span(value)));
  const bool is_known = in.Pod<uint32_t>() == kForm;
  const auto epoch = in.Pod<uint64_t>();
  if (!is_known || !in.AtEnd()) return IsNone("epoch");
  return epoch;
}

}  // namespace tessera
