// Tickets: the bytes that a client shows, and what a signature covers. Input: u8 which, then its bytes.
#include "protocol/ticket/ticket.h"

#include "protocol/ticket/ticket_keys.h"
#include "tests/fuzz/round_trip.h"
#include "tests/protocol/ticket/some_ticket.h"

namespace tessera::fuzz {
namespace {

// The same key in every run.
const TicketSigner& Signer() {
  static const TicketSigner signer = TicketSigner::FromPem(
                                         "-----BEGIN PRIVATE KEY-----\n"
                                         "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                                         "-----END PRIVATE KEY-----\n")
                                         .value();
  return signer;
}

void CheckSigned(std::span<const std::byte> bytes) {
  static const TicketKeys keys = [] {
    TicketKeys made;
    FUZZ_CHECK(made.Add(Signer().PublicPem()).ok());
    return made;
  }();
  Result<Ticket> ticket = keys.Open(bytes);
  // Ed25519 signs the same bytes in the same way each time.
  if (ticket.ok()) FUZZ_CHECK(Signer().Sign(*ticket) == Input(bytes.begin(), bytes.end()));
}

void CheckContent(std::span<const std::byte> bytes) {
  Result<Ticket> ticket = Ticket::Decode(bytes);
  if (ticket.ok()) CheckSentOn(*ticket);
}

constexpr Checker kCheckers[] = {CheckSigned, CheckContent};

}  // namespace

void Run(std::span<const std::byte> input) { RunOneOf(kCheckers, input); }

std::vector<Input> Seeds() {
  const Input messages[] = {Signer().Sign(SomeTicket()), Encoded(SomeTicket())};
  return SeedsOf(messages);
}

}  // namespace tessera::fuzz
