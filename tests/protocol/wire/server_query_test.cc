#include "protocol/wire/server_query.h"

#include <gtest/gtest.h>

#include "tests/protocol/wire/torture.h"

namespace tessera {
namespace {

ServerReport SampleReport() {
  ServerReport report;
  report.spec_hash = 0xabcdef;
  report.server = "tesserad 0.1";
  report.driver = "cuda";
  report.driver_release = "580.1";
  report.sessions = 3;
  report.sessions_max = 64;
  report.snapshot.assign(100, std::byte{5});
  report.readings = {{{Reading::kMemoryTotalBytes, 1 << 30}, {Reading::kGpuPercent, 40}}, {}};
  report.texts = {{Reading::kSerial, "0123"}, {Reading::kInforomVersion + 1, ""}};
  report.fields = {{{82, 0}, 0, 1, 45, 1'000'000, 20}, {{185, 1}, 3, 0, 0, 0, 0}};
  report.uses = {{4711, 1, 1 << 20, {9'000'000, 40, 5, 0, 1}}, {4712, 0, ServerReport::Use::kUnknown, {}}};
  return report;
}

TEST(ServerQuery, ReportComesThrough) {
  const Result<ServerReport> report = ServerReport::Decode(Encoded(SampleReport()));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report.value().server, "tesserad 0.1");
  EXPECT_EQ(report.value().driver, "cuda");
  EXPECT_EQ(report.value().driver_release, "580.1");
  EXPECT_EQ(report.value().sessions, 3u);
  EXPECT_EQ(report.value().sessions_max, 64u);
  EXPECT_EQ(report.value().snapshot, SampleReport().snapshot);
  EXPECT_EQ(report.value().readings, SampleReport().readings);
  EXPECT_EQ(report.value().texts, SampleReport().texts);
  EXPECT_EQ(report.value().fields, SampleReport().fields);
  EXPECT_EQ(report.value().uses, SampleReport().uses);
}

TEST(ServerQuery, QueryComesThrough) {
  const ServerQuery sent{.spec_hash = 7, .ask = ServerQuery::Ask::kFields, .device = 3, .fields = {{82, 0}, {90, 17}}};
  Result<ServerQuery> query = ServerQuery::Decode(Encoded(sent));
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->spec_hash, 7u);
  EXPECT_EQ(query->ask, ServerQuery::Ask::kFields);
  EXPECT_EQ(query->device, 3u);
  EXPECT_EQ(query->fields, sent.fields);
}

TEST(ServerQuery, DecodersStandTruncationAndDamage) {
  Torture(ServerQuery{.spec_hash = 7, .ask = ServerQuery::Ask::kFields, .device = 1, .fields = {{82, 0}, {90, 17}}});
  Torture(SampleReport());
}

TEST(ServerQuery, VersionAndHashOfAnotherVersionAreTold) {
  ServerReport report = SampleReport();
  report.wire_version = 77;
  std::vector<std::byte> message = Encoded(report);
  message.resize(24);  // a future report may go on differently
  const Result<ServerReport> decoded = ServerReport::Decode(message);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().wire_version, 77u);
  EXPECT_EQ(decoded.value().spec_hash, 0xabcdefu);
  EXPECT_TRUE(decoded.value().server.empty());
}

TEST(ServerQuery, UsesBeyondTheBoundAreLeftOut) {
  ServerReport report = SampleReport();
  report.uses.resize(ServerReport::kUsesMax + 10);
  const Result<ServerReport> decoded = ServerReport::Decode(Encoded(report));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().uses.size(), ServerReport::kUsesMax);
}

TEST(ServerQuery, BoundsHold) {
  ServerReport report = SampleReport();
  report.readings[0].resize(ServerReport::kReadingsMax + 1);
  EXPECT_FALSE(ServerReport::Decode(Encoded(report)).ok());
  report = SampleReport();
  report.texts.resize(ServerReport::kTextsMax + 1);
  EXPECT_FALSE(ServerReport::Decode(Encoded(report)).ok());
  ServerQuery query;
  query.fields.resize(ServerQuery::kFieldsMax + 1);
  EXPECT_FALSE(ServerQuery::Decode(Encoded(query)).ok());
  query = {};
  query.ask = static_cast<ServerQuery::Ask>(5);
  EXPECT_FALSE(ServerQuery::Decode(Encoded(query)).ok());
  report = SampleReport();
  report.snapshot.resize(kSnapshotBytesMax + 1);
  EXPECT_FALSE(ServerReport::Decode(Encoded(report)).ok());
}

}  // namespace
}  // namespace tessera
