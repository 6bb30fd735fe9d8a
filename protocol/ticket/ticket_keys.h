// Signs tickets and checks their signatures, with Ed25519 keys (RFC 8032, by OpenSSL).
//
//   Result<TicketSigner> signer = TicketSigner::Make();                 // the placer
//   const std::vector<std::byte> bytes = signer->Sign(ticket);
//   TicketKeys keys;                                                    // a server
//   keys.Add(public_pem);
//   Result<Ticket> ticket = keys.Open(bytes);
//
// Sign() and Open(): any thread, several at once. Add() and Remove(): while no other thread uses the object.
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
  // The key's id, as it stands in every ticket.
  uint64_t key_id() const { return key_id_; }

  // The ticket as it travels, kTicketBytesMax at most. The caller keeps the fields within their bounds.
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

  // Adds a key, or finds it there already, and returns its id. kInvalidArgument: that is no Ed25519 public key in PEM form.
  Result<uint64_t> Add(const std::string& public_pem);
  // Tickets of that key are not accepted any more.
  void Remove(uint64_t key_id);
  bool Has(uint64_t key_id) const { return keys_.contains(key_id); }

  // The ticket, once its signature was checked. Only version and key are read before that. kProtocolViolation: no ticket, or cut
  // off. kVersionMismatch. kPermissionDenied: the key is unknown, or did not make this signature. The sentence says which.
  Result<Ticket> Open(std::span<const std::byte> bytes) const;

 private:
  std::map<uint64_t, std::unique_ptr<TicketKey>> keys_;
};

// Reads a ticket without checking its signature. For showing it to its holder; never act upon it. kProtocolViolation: the bytes
// are no ticket, or cut off. kVersionMismatch.
Result<Ticket> ReadUnprovedTicket(std::span<const std::byte> bytes);

}  // namespace tessera
