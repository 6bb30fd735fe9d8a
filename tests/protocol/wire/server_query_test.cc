#include "protocol/wire/server_query.h"

#include <gtest/gtest.h>

#include <set>

#include "protocol/wire/device_snapshot.h"
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
  report.uses = {{4711, 1, 1 << 20, {9'000'000, 40, 5, 0, 1}, 3}, {4712, 0, ServerReport::Use::kUnknown, {}, 9}};
  report.holders = {{"uid:1000", 1, 2, 3, 4, 5}, {"anonymous", 0, 1, 0, 0, 0}};
  report.session_list = {{3, 4711, 125'000, "python3", "train", "alice", "gpu7", "uid:1000"}, {9, 4712, 0, "", "", "", "", ""}};
  report.other_sessions = 4;
  report.others = {{0, 3, 5 << 20}, {1, 1, 0}};
  report.needs_vgpu = true;
  report.sharings = {{0, "fair", "metered", 2, 3}};
  report.vgpus.resize(2);
  report.vgpus[0].name = "train";
  report.vgpus[0].got_10s = 0.7;
  report.vgpus[1].waits = true;
  report.vgpus[1].queued_before_ms = 1'500;
  report.vgpus[1].queued_before_runs = true;
  report.context_bytes = {500 << 20, 0};
  report.audit = "log";
  report.vgpu_problem = "line 3: what stands there";
  report.no_place = "it has 64 sessions";
  report.ending = true;
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
  EXPECT_EQ(report.value().session_list, SampleReport().session_list);
  EXPECT_EQ(report.value().holders, SampleReport().holders);
  EXPECT_EQ(report.value().other_sessions, 4u);
  EXPECT_EQ(report.value().others, SampleReport().others);
  EXPECT_TRUE(report.value().needs_vgpu);
  EXPECT_EQ(report.value().sharings, SampleReport().sharings);
  EXPECT_EQ(report.value().vgpus, SampleReport().vgpus);
  EXPECT_EQ(report.value().audit, "log");
  EXPECT_EQ(report.value().vgpu_problem, SampleReport().vgpu_problem);
  EXPECT_EQ(report.value().no_place, SampleReport().no_place);
  EXPECT_TRUE(report.value().ending);
  EXPECT_EQ(report.value().context_bytes, SampleReport().context_bytes);
}

// Every number belongs to one line of device_readings.def, or to one reading of server_query.h.
TEST(ServerQuery, NumbersOfReadingsAreUnique) {
  std::set<uint32_t> taken;
  for (const Reading reading : {Reading::kMemoryTotalBytes, Reading::kMemoryUsedBytes, Reading::kMemoryReservedBytes,
                                Reading::kGpuPercent, Reading::kMemoryPercent, Reading::kPciDeviceId, Reading::kPciSubsystemId,
                                Reading::kPciBaseClass, Reading::kPciSubClass, Reading::kGspFirmwareVersion}) {
    EXPECT_TRUE(taken.insert(static_cast<uint32_t>(reading)).second);
  }
  const auto take = [&taken](uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) EXPECT_TRUE(taken.insert(first + i).second) << first << " + " << i;
  };
  take(static_cast<uint32_t>(Reading::kMemoryClocksMhz), 1 + kMemoryClocksMax);
  take(static_cast<uint32_t>(Reading::kGraphicsClocksMhz), kMemoryClocksMax * kClocksPlaces);
  for (const Reading reading : {Reading::kCommonAncestor, Reading::kPeerStatusNvLink, Reading::kPeerStatusPci}) {
    take(static_cast<uint32_t>(reading), DeviceSnapshot::kDevicesMax);
  }
  take(static_cast<uint32_t>(Reading::kNearestDevices), kTopologyLevels);
#define READING_NUMBER(ask, number, name, function) take(number, 1);
#define READING_LARGE(ask, number, name, function) take(number, 1);
#define READING_PAIR(ask, number, name, function) take(number, 2);
#define READING_TRIPLE(ask, number, name, function) take(number, 3);
#define READING_QUADRUPLE(ask, number, name, function) take(number, 4);
#define READING_STRUCT32(ask, number, name, function, n) take(number, n);
#define READING_STRUCT64(ask, number, name, function, n) take(number, n);
#define READING_VERSIONED32(ask, number, name, function, n) take(number, n);
#define READING_VERSIONED64(ask, number, name, function, n) take(number, n);
#define READING_CHOICE(ask, number, name, function, n) take(number, n);
#define READING_CHOICE_PAIR64(ask, number, name, function, n) take(number, 2 * n);
#define READING_TWO_CHOICES(ask, number, name, function, n, m, k) take(number, n* m* k);
#define READING_THREE_CHOICES(ask, number, name, function, n, m, k) take(number, n* m* k);
#define READING_TEXT(ask, number, name, function) take(number, 1);
#define READING_CHOICE_TEXT(ask, number, name, function, n) take(number, n);
#define READING_TWO_CHOICES32(ask, number, name, function, n, m) take(number, n* m);
#define READING_CHOICE_STRUCT32(ask, number, name, function, n, k) take(number, n* k);
#define READING_FORM32(ask, number, name, function, version, n) take(number, n);
#include "protocol/wire/device_readings.def"
  EXPECT_GT(taken.size(), 300u);
}

TEST(ServerQuery, QueryComesThrough) {
  const ServerQuery sent{.spec_hash = 7,
                         .ask = ServerQuery::Ask::kFields,
                         .device = 3,
                         .fields = {{82, 0}, {90, 17}},
                         .vgpus = "train+notebook",
                         .ticket = std::vector<std::byte>(100, std::byte{9}),
                         .holder = "uid:7",
                         .session = 12,
                         .grace_ms = 30'000,
                         .wait_ms = 7};
  Result<ServerQuery> query = ServerQuery::Decode(Encoded(sent));
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->spec_hash, 7u);
  EXPECT_EQ(query->ask, ServerQuery::Ask::kFields);
  EXPECT_EQ(query->device, 3u);
  EXPECT_EQ(query->fields, sent.fields);
  EXPECT_EQ(query->vgpus, sent.vgpus);
  EXPECT_EQ(query->ticket, sent.ticket);
  EXPECT_EQ(query->holder, "uid:7");
  EXPECT_EQ(query->session, 12u);
  EXPECT_EQ(query->grace_ms, 30'000u);
  EXPECT_EQ(query->wait_ms, 7u);
}

TEST(ServerQuery, DecodersStandTruncationAndDamage) {
  Torture(ServerQuery{.spec_hash = 7,
                      .ask = ServerQuery::Ask::kFields,
                      .device = 1,
                      .fields = {{82, 0}, {90, 17}},
                      .vgpus = "train+notebook",
                      .holder = "name:x"});
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

// However long the names are that clients give themselves, the report is one message.
TEST(ServerQuery, SessionsWithLongTextsAreLeftOutBeyondABound) {
  ServerReport report = SampleReport();
  ServerReport::Session session = report.session_list[0];
  session.program.assign(kNameBytesMax, 'p');
  session.vgpus.assign(kVgpuListBytesMax, 'v');
  report.session_list.assign(ServerReport::kSessionsMax, session);
  const Result<ServerReport> decoded = ServerReport::Decode(Encoded(report));
  ASSERT_TRUE(decoded.ok());
  EXPECT_GT(decoded.value().session_list.size(), 40u);
  EXPECT_LT(decoded.value().session_list.size(), 60u);
  EXPECT_EQ(decoded.value().session_list.size() + decoded.value().other_sessions, ServerReport::kSessionsMax + 4u);
}

// As many vGPUs as there can be, each with the longest name, and as much of everything else as a busy server has.
TEST(ServerQuery, TheLargestReportIsOneMessage) {
  ServerReport report = SampleReport();
  ServerReport::Vgpu vgpu;
  vgpu.name.assign(63, 'v');
  vgpu.priority = "best-effort";
  report.vgpus.assign(ServerReport::kVgpusMax, vgpu);
  report.snapshot.resize(size_t{16} << 10);  // of eight devices
  report.readings.assign(8, std::vector<ServerReport::Value>(100, {Reading::kGpuPercent, 1}));
  report.sharings.assign(8, {0, "static-slots", "metered", 2, 3});
  report.uses.assign(ServerReport::kUsesMax, report.uses[0]);
  report.session_list.assign(ServerReport::kSessionsMax, report.session_list[0]);
  report.holders.assign(ServerReport::kHoldersMax, {"name:" + std::string(60, 'h'), 1, 2, 3, 4, 5});
  report.vgpu_problem.assign(kSentenceBytesMax, 'p');
  Result<ServerReport> decoded = ServerReport::Decode(Encoded(report));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->vgpus, report.vgpus);
  EXPECT_EQ(decoded->holders.size(), ServerReport::kHoldersMax);
  // What of them does not fit is counted.
  EXPECT_GT(decoded->uses.size(), 50U);
  EXPECT_GT(decoded->session_list.size(), 50U);
  EXPECT_EQ(decoded->session_list.size() + decoded->other_sessions, report.session_list.size() + report.other_sessions);
}

TEST(ServerQuery, MalformedHoldersAreRefused) {
  ServerQuery query;
  query.holder = "root";
  EXPECT_FALSE(ServerQuery::Decode(Encoded(query)).ok());
  ServerReport report = SampleReport();
  report.session_list[0].name = "uid:x";
  EXPECT_FALSE(ServerReport::Decode(Encoded(report)).ok());
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
  query.ask = static_cast<ServerQuery::Ask>(9);
  EXPECT_FALSE(ServerQuery::Decode(Encoded(query)).ok());
  query = {};
  query.grace_ms = ServerQuery::kGraceMsMax + 1;
  EXPECT_FALSE(ServerQuery::Decode(Encoded(query)).ok());
  report = SampleReport();
  report.snapshot.resize(kSnapshotBytesMax + 1);
  EXPECT_FALSE(ServerReport::Decode(Encoded(report)).ok());
}

}  // namespace
}  // namespace tessera
