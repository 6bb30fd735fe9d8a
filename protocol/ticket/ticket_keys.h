// Who makes tickets, and who believes them: Ed25519 keys (RFC 8032, by OpenSSL).
//
//   Result<TicketSigner> signer = TicketSigner::Make();                 // the placer
//   const std::vector<std::byte> bytes = signer->Sign(ticket);
//   TicketKeys keys;                                                    // a server
//   keys.Add(public_pem);
//   Result<Ticket> ticket = keys.Open(bytes);
//
// Signing and opening any thread may do; Add() and Remove() nobody beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/ticket/ticket.h"

namespace tessera {

inline constexpr size_t kTicketBytesMax = 4096;
inline constexpr uint32_t kTicketVersion = 2;

// One key of OpenSSL's, private or public.
class TicketKey;

class TicketSigner {
 public:
  // With a new key. kInternal: OpenSSL's words.
  static Result<TicketSigner> Make();
  // kInvalidArgument: that is no Ed25519 key in PEM form (PKCS #8, RFC 8410).
  static Result<TicketSigner> FromPem(const std::string& pem);
  TicketSigner(TicketSigner&&) noexcept;
  TicketSigner& operator=(TicketSigner&&) noexcept;
  ~TicketSigner();

  std::string PrivatePem() const;
  std::string PublicPem() const;
  // Which key it is, in every ticket.
  uint64_t key_id() const { return key_id_; }

  // The ticket as it travels, kTicketBytesMax at most. The fields are within their bounds.
  std::vector<std::byte> Sign(const Ticket& ticket) const;

 private:
  explicit TicketSigner(std::unique_ptr<TicketKey> key);

  std::unique_ptr<TicketKey> key_;
  uint64_t key_id_ = 0;
};

class TicketKeys {
 public:
  TicketKeys();
  TicketKeys(TicketKeys&&) noexcept;
  TicketKeys& operator=(TicketKeys&&) noexcept;
  ~TicketKeys();

  // The id of the key, which may be there already. kInvalidArgument: that is no Ed25519 public key in PEM form.
  Result<uint64_t> Add(const std::string& public_pem);
  // Its tickets are not believed any more.
  void Remove(uint64_t key_id);
  bool Has(uint64_t key_id) const { return keys_.contains(key_id); }

  // What was signed. The sentence says which it is: kProtocolViolation (no ticket, or cut off), kVersionMismatch,
  // kPermissionDenied (a key that is not here, or a signature that is not that key's). No field is read before the signature was
  // checked, but for the version and the key.
  Result<Ticket> Open(std::span<const std::byte> bytes) const;

 private:
  std::map<uint64_t, std::unique_ptr<TicketKey>> keys_;
};

// What the bytes say, whoever signed them: to be shown to whoever has them, and never to be acted upon. kProtocolViolation: they
// are no ticket, or cut off; kVersionMismatch.
Result<Ticket> ReadUnprovedTicket(std::span<const std::byte> bytes);

}  // namespace tessera
