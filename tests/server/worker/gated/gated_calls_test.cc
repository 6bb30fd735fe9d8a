// Every call of protocol/spec that names a stream or gives the device work is sent to a worker whose gate is closed: it waits, or
// goes through, as its `work` says. What waits has given the driver nothing, and does when the gate opens.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include "generated/server/dispatch.h"
#include "tests/server/worker/gated/closed_gate.h"
#include "tests/server/worker/gated/ways.h"

namespace tessera {

void PrintTo(const GatedCall& call, std::ostream* out) { *out << call.name; }

namespace {

// Work of the GPU, of copies only some.
bool MayWait(GateKind kind) {
  return kind == GateKind::kLaunch || kind == GateKind::kGraph || kind == GateKind::kSet || kind == GateKind::kCopy;
}

GateKind KindOfFunction(const std::string& name) {
  static const std::map<std::string, GateKind> kinds = [] {
    std::map<std::string, GateKind> made;
    for (const GatedCall& call : AllGatedCalls()) made.emplace(call.name, GateKindOf(call.id));
    return made;
  }();
  const auto found = kinds.find(name);
  return found != kinds.end() ? found->second : GateKind::kNone;
}

// Whether the driver was asked for something of this kind.
bool Asked(const std::vector<std::string>& functions, GateKind kind) {
  return std::ranges::any_of(functions, [&](const std::string& name) { return KindOfFunction(name) == kind; });
}

void Drive(const GatedCall& call, const Way& way) {
  const GateKind kind = GateKindOf(call.id);
  ClosedGate gate(way.mirrored);
  Arguments given;
  way.give(given, gate.pinned_memory());
  Encoder message;
  call.encode(given, message);
  ASSERT_EQ(given.missing(), "") << "are fields without a value: state one in ways.cc";
  const Passage passage = gate.Send(call.id, message.bytes());
  ASSERT_TRUE(passage.reply.has_value());
  EXPECT_EQ(passage.reply->header.result, CUDA_SUCCESS);
  EXPECT_EQ(passage.waited, way.waits);
  EXPECT_EQ(gate.passed(), way.waits ? 1u : 0u);
  if (kind != GateKind::kNone) {
    EXPECT_TRUE(Asked(way.waits ? passage.after : passage.before, kind)) << "the driver never has it";
  }
  if (!way.waits) return;
  for (const std::string& name : passage.before) EXPECT_FALSE(MayWait(KindOfFunction(name))) << name << " came before its turn";
}

class GatedCallTest : public testing::TestWithParam<GatedCall> {};

TEST_P(GatedCallTest, WaitsOrPassesAsTheSpecSays) {
  for (const Way& way : WaysOf(GetParam())) {
    SCOPED_TRACE(way.name);
    Drive(GetParam(), way);
  }
}

// What is stated by name cannot take a call out of the rule of its kind.
TEST_P(GatedCallTest, IsDrivenAsItsKindIs) {
  const GatedCall& call = GetParam();
  const std::vector<Way> ways = WaysOf(call);
  ASSERT_FALSE(ways.empty()) << "state in ways.cc how it is driven";
  const bool waits = std::ranges::any_of(ways, &Way::waits);
  const bool is_stated = std::ranges::count(StatedCalls(), call.name) != 0;
  const GateKind kind = GateKindOf(call.id);
  if (kind != GateKind::kCopy || !is_stated) {
    EXPECT_EQ(waits, MayWait(kind));
  }
}

INSTANTIATE_TEST_SUITE_P(Spec, GatedCallTest, testing::ValuesIn(AllGatedCalls()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GatedCalls, AreAllThatGiveWork) {
  std::set<uint32_t> driven;
  for (const GatedCall& call : AllGatedCalls()) driven.insert(call.id);
  for (uint32_t id = 0; id < 0x10000; ++id) {
    if (GateKindOf(id) != GateKind::kNone) {
      EXPECT_TRUE(driven.contains(id)) << CallName(id);
    }
  }
}

TEST(GatedCalls, WhatIsStatedIsOfCallsThatThereAre) {
  const std::vector<GatedCall> calls = AllGatedCalls();
  for (const std::string_view name : StatedCalls()) {
    EXPECT_TRUE(std::ranges::any_of(calls, [&](const GatedCall& call) { return call.name == name; })) << name;
  }
}

}  // namespace
}  // namespace tessera
