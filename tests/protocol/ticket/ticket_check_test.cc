#include "protocol/ticket/ticket_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocol/ticket/some_ticket.h"

namespace tessera {
namespace {

using testing::HasSubstr;

const Ticket kTicket = SomeTicket();

TicketScene Scene() {
  return {.cluster = "west",
          .server = "gpu7",
          .holder = "name:alice",
          .now_ms = kTicket.issued_ms + 1'000,
          .newest_epoch = kTicket.epoch};
}

void ExpectRefused(const TicketScene& scene, const std::string& words) {
  const Status status = CheckTicket(kTicket, scene);
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr(words));
}

TEST(CheckTicket, WhatAgreesIsTaken) { EXPECT_TRUE(CheckTicket(kTicket, Scene()).ok()); }

TEST(CheckTicket, EachThatDoesNotAgreeIsNamed) {
  TicketScene scene = Scene();
  scene.cluster = "east";
  ExpectRefused(scene, "of the cluster 'west', and this server is of 'east'");
  scene = Scene();
  scene.server = "gpu8";
  ExpectRefused(scene, "for the server 'gpu7', and this is 'gpu8'");
  scene = Scene();
  scene.holder = "name:mallory";
  ExpectRefused(scene, "is name:alice's, and this client is name:mallory");
  scene = Scene();
  scene.newest_epoch = kTicket.epoch + 1;
  ExpectRefused(scene, "of epoch 12 of the placer, this server has seen 13");
}

TEST(CheckTicket, TimeIsThePlacers) {
  TicketScene scene = Scene();
  scene.now_ms = kTicket.issued_ms - kTicketEarlyMs;
  EXPECT_TRUE(CheckTicket(kTicket, scene).ok());
  --scene.now_ms;
  ExpectRefused(scene, "was made 5.0 s from now by the placer's clock");
  scene.now_ms = kTicket.expires_ms - 1;
  EXPECT_TRUE(CheckTicket(kTicket, scene).ok());
  scene.now_ms = kTicket.expires_ms + 2'000;
  ExpectRefused(scene, "expired 2.0 s ago");
}

TEST(CheckTicket, TheLedgerCountsMoreThanTime) {
  TicketScene scene = Scene();
  scene.grant = TicketScene::Grant::kHeld;
  scene.now_ms = kTicket.expires_ms + 3'600'000;
  scene.newest_epoch = kTicket.epoch + 5;
  EXPECT_TRUE(CheckTicket(kTicket, scene).ok());
  scene = Scene();
  scene.grant = TicketScene::Grant::kReleased;
  ExpectRefused(scene, "was released");
}

}  // namespace
}  // namespace tessera
