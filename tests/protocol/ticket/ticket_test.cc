#include "protocol/ticket/ticket.h"

#include <gtest/gtest.h>

#include "protocol/ticket/ticket_keys.h"
#include "tests/protocol/ticket/some_ticket.h"
#include "tests/protocol/wire/torture.h"

namespace tessera {
namespace {

TEST(Ticket, ComesThrough) {
  Result<Ticket> ticket = Ticket::Decode(Encoded(SomeTicket()));
  ASSERT_TRUE(ticket.ok());
  EXPECT_EQ(*ticket, SomeTicket());
}

TEST(Ticket, BadBytesAreRefused) { Torture(SomeTicket()); }

TEST(Ticket, FieldsHaveBounds) {
  const auto is_taken = [](const auto& change) {
    Ticket ticket = SomeTicket();
    change(ticket);
    return Ticket::Decode(Encoded(ticket)).ok();
  };
  EXPECT_TRUE(is_taken([](Ticket&) {}));
  for (std::string Ticket::*name : {&Ticket::cluster, &Ticket::server, &Ticket::holder}) {
    EXPECT_FALSE(is_taken([&](Ticket& ticket) { ticket.*name = ""; }));
    EXPECT_FALSE(is_taken([&](Ticket& ticket) { ticket.*name = "name:a\n"; }));
  }
  EXPECT_TRUE(is_taken([](Ticket& ticket) { ticket.server = std::string(63, 'a'); }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.server = std::string(64, 'a'); }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.holder = "root"; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.part = Ticket::kPartsMax; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.issued_ms = -1; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.expires_ms = ticket.issued_ms; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.processes = 0; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.processes = Ticket::kProcessesMax + 1; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus.clear(); }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus.resize(9); }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus[1].gpu = ticket.vgpus[0].gpu; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus[0].limit = 0; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus[0].limit = TicketVgpu::kWhole + 1; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus[0].request = ticket.vgpus[0].limit + 1; }));
  EXPECT_FALSE(is_taken([](Ticket& ticket) { ticket.vgpus[0].priority = static_cast<TicketPriority>(3); }));
}

TEST(Ticket, TheLargestFits) {
  Ticket ticket = SomeTicket();
  ticket.cluster = ticket.server = std::string(Ticket::kNameBytesMax, 'n');
  ticket.holder = "name:" + std::string(251, 'h');
  ticket.vgpus.resize(Ticket::kVgpusMax);
  for (size_t i = 0; i < ticket.vgpus.size(); ++i) ticket.vgpus[i].gpu.fill(static_cast<std::byte>(i));
  const TicketSigner signer = TicketSigner::Make().value();
  TicketKeys keys;
  ASSERT_TRUE(keys.Add(signer.PublicPem()).ok());
  const std::vector<std::byte> bytes = signer.Sign(ticket);
  EXPECT_LE(bytes.size(), kTicketBytesMax);
  Result<Ticket> opened = keys.Open(bytes);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(*opened, ticket);
}

}  // namespace
}  // namespace tessera
