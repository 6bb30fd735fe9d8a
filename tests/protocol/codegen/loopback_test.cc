// The generated client and server code of the toy spec (golden/), run against each other over a loopback that stands in for
// the real stub and worker: what an application sees of each annotation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/device_work/device_work.h"
#include "generated/client/proc_address_table.h"
#include "generated/client/toy.h"
#include "generated/driver_table.h"
#include "generated/server/dispatch.h"
#include "generated/server/toy.h"
#include "server/worker/await_turn.h"
#include "server/worker/call_context.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

const auto kDriverToy = reinterpret_cast<CUtoy>(0x7000);
const auto kOtherToy = reinterpret_cast<CUtoy>(0x7100);

// What the driver was called with.
struct Seen {
  unsigned int flags = 0;
  CUtoy toy = nullptr;
  std::string name, data;
  std::vector<CUtoy> toys;
  bool toys_null = false, friends_null = false;
  std::vector<int> points;
  void* user_data = nullptr;
  CUstream stream = nullptr;
  int destroyed = 0;
} seen;

CUresult driver_result = CUDA_SUCCESS;
size_t driver_friends = 0;

CUresult CUDAAPI DriverCreate(CUtoy* toy, unsigned int flags) {
  seen.flags = flags;
  *toy = kDriverToy;
  return driver_result;
}

CUresult CUDAAPI DriverThrow(CUtoy toy, CUstream stream) {
  seen.toy = toy;
  seen.stream = stream;
  return driver_result;
}

CUresult CUDAAPI DriverDestroy(CUtoy toy) {
  seen.toy = toy;
  ++seen.destroyed;
  return driver_result;
}

CUresult CUDAAPI DriverRename(CUtoy toy, const char* name, const void* data, size_t size, char* old, int length) {
  seen.toy = toy;
  seen.name = name;
  seen.data.assign(static_cast<const char*>(data), size);
  if (length > 0) std::strncpy(old, "previous", length);
  return driver_result;
}

CUresult CUDAAPI DriverPlay(const CUtoy* toys, unsigned int number, const CUpoint* points, CUpoint* place, CUtoy* friends,
                            size_t* friend_count, void* user_data, CUstream stream) {
  seen.toys_null = toys == nullptr;
  if (toys != nullptr) seen.toys.assign(toys, toys + number);
  seen.points = {points[0].x, points[1].y, place->x};
  place->y = 77;
  seen.friends_null = friends == nullptr;
  if (friends != nullptr && *friend_count > 0) friends[0] = kDriverToy;
  if (friends != nullptr && *friend_count > 1) friends[1] = kOtherToy;
  *friend_count = driver_friends;
  seen.user_data = user_data;
  seen.stream = stream;
  return driver_result;
}

class Loopback : public ::testing::Test {
 protected:
  Loopback() {
    seen = Seen();
    driver_result = CUDA_SUCCESS;
    table_.cuToyCreate = DriverCreate;
    table_.cuToyDestroy = DriverDestroy;
    table_.cuToyRename = DriverRename;
    table_.cuToyPlay_v2 = DriverPlay;
    table_.cuToyThrow = DriverThrow;
    CallContext::table = &table_;
    CallContext::objects.clear();
    Call::live.clear();
    Call::spoil_reply = nullptr;
  }
  CUtoy Create() {
    CUtoy toy = nullptr;
    EXPECT_EQ(cuToyCreate(&toy, 9), CUDA_SUCCESS);
    return toy;
  }

  DriverTable table_;
};

TEST_F(Loopback, NewObjectsAreKnownByTheClientsHandle) {
  const CUtoy toy = Create();
  EXPECT_NE(toy, nullptr);
  EXPECT_NE(toy, kDriverToy);
  EXPECT_EQ(seen.flags, 9u);
  EXPECT_EQ(CallContext::objects.at(reinterpret_cast<uint64_t>(toy)), reinterpret_cast<uint64_t>(kDriverToy));
  EXPECT_EQ(cuToyCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Loopback, FreedObjectsAreGoneOnBothSides) {
  const CUtoy toy = Create();
  EXPECT_EQ(cuToyDestroyOld(toy), CUDA_SUCCESS);  // an alias of cuToyDestroy
  EXPECT_EQ(seen.toy, kDriverToy);
  EXPECT_TRUE(CallContext::objects.empty());
  EXPECT_EQ(cuToyDestroy(toy), CUDA_ERROR_NOT_INITIALIZED);  // null(3)
  EXPECT_EQ(seen.destroyed, 1);
}

// What may append a request of a call that gives the device work, and what may not.
template <typename Request>
concept AnyCallAppends = requires(Call& call, const Request& request) { call.Async(request); };
static_assert(AnyCallAppends<cuToyCreateRequest> && AnyCallAppends<cuToyPlay_v2Request>);
static_assert(!AnyCallAppends<cuToyThrowRequest>);

TEST_F(Loopback, WorkOfTheDeviceGoesThroughItsScope) {
  WorkOnAnything::streams.clear();
  const CUtoy toy = Create();
  const auto stream = reinterpret_cast<CUstream>(uint64_t{2});
  ASSERT_EQ(cuToyThrow(toy, stream), CUDA_SUCCESS);
  EXPECT_THAT(WorkOnAnything::streams, ElementsAre(2u));
  EXPECT_EQ(seen.toy, kDriverToy);
  EXPECT_EQ(seen.stream, stream);
}

TEST_F(Loopback, ABlockingCallThatGivesWorkWaitsBeforeIt) {
  const auto wait = [](uint32_t id, HandleId stream) {
    cuToyHurlRequest request;
    request.stream = stream;
    Encoder encoder;
    request.Encode(encoder);
    CallContext context(false);
    Decoder decoder(encoder.bytes());
    AwaitTurnOf(id, context, decoder);
    EXPECT_EQ(context.ends, 0);
  };
  EXPECT_TRUE(IsBlocking(kInfo_cuToyHurl.id));
  const int before = g_turns_awaited;
  wait(kInfo_cuToyHurl.id, HandleId(2));
  EXPECT_EQ(g_turns_awaited, before + 1);
  wait(kInfo_cuToyThrow.id, HandleId(2));  // its handler does
  wait(0xffff, HandleId(2));
  EXPECT_EQ(g_turns_awaited, before + 1);
}

TEST_F(Loopback, WithSeveralServersACallSaysFirstWhatItNames) {
  CUtoy toy = nullptr;
  ASSERT_EQ(cuToyCreate(&toy, 1), CUDA_SUCCESS);
  Call::routed.clear();
  ASSERT_EQ(cuToyDestroyOld(nullptr), 3);
  EXPECT_THAT(Call::routed, ElementsAre());  // there is one server
  several = true;
  EXPECT_EQ(cuToyDestroy(toy), CUDA_SUCCESS);
  several = false;
  EXPECT_THAT(Call::routed, ElementsAre(reinterpret_cast<uint64_t>(toy)));
}

TEST_F(Loopback, FailedCreationLeavesNothingOnTheServer) {
  driver_result = CUDA_ERROR_OUT_OF_MEMORY;
  Create();
  EXPECT_TRUE(CallContext::objects.empty());
}

TEST_F(Loopback, BytesAndTextTravelBothWays) {
  const CUtoy toy = Create();
  char old[6] = "?????";
  EXPECT_EQ(cuToyRename(toy, "bear", "a\0c", 3, old, sizeof(old)), CUDA_SUCCESS);
  EXPECT_EQ(seen.toy, kDriverToy);
  EXPECT_EQ(seen.name, "bear");
  EXPECT_EQ(seen.data, std::string("a\0c", 3));
  EXPECT_STREQ(old, "previ");  // cut off, with its NUL, although the driver wrote none
  EXPECT_EQ(cuToyRename(toy, "bear", nullptr, 0, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(seen.data, "");
}

TEST_F(Loopback, OutputsAreWrittenAfterSuccessOnly) {
  const CUtoy toy = Create();
  char old[6] = "?????";
  driver_result = CUDA_ERROR_UNKNOWN;
  EXPECT_EQ(cuToyRename(toy, "bear", "abc", 3, old, sizeof(old)), CUDA_ERROR_UNKNOWN);
  EXPECT_STREQ(old, "?????");
}

TEST_F(Loopback, NullAndUnknownArgumentsFailAtTheClient) {
  const CUtoy toy = Create();
  char old[6];
  EXPECT_EQ(cuToyRename(toy, nullptr, "abc", 3, old, 6), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuToyRename(toy, "bear", nullptr, 3, old, 6), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuToyRename(toy, "bear", "abc", 3, nullptr, 6), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuToyRename(toy, "bear", "abc", 3, old, -1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuToyRename(kDriverToy, "bear", "abc", 3, old, 6), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuToyRename(nullptr, "bear", "abc", 3, old, 6), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(seen.toy, nullptr);
}

TEST_F(Loopback, AnOutputLargerThanTheServersMemoryIsAnError) {
  const CUtoy toy = Create();
  std::vector<char> old(100000);
  EXPECT_EQ(cuToyRename(toy, "bear", "abc", 3, old.data(), old.size()), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(Loopback, ArraysAreFilledAsFarAsTheDriverSays) {
  const CUtoy toys[] = {Create(), Create()};
  const CUpoint points[] = {{1, 2}, {3, 4}};
  CUpoint place = {5, 6};
  CUtoy friends[4] = {};
  size_t friend_count = 4;
  driver_friends = 2;
  int user = 0;
  EXPECT_EQ(cuToyPlay_v2(toys, 2, points, &place, friends, &friend_count, &user, nullptr), CUDA_SUCCESS);
  EXPECT_THAT(seen.toys, ElementsAre(kDriverToy, kDriverToy));
  EXPECT_THAT(seen.points, ElementsAre(1, 4, 5));
  EXPECT_EQ(seen.user_data, &user);
  EXPECT_EQ(seen.stream, nullptr);
  EXPECT_EQ(place.y, 77);
  EXPECT_EQ(friend_count, 2u);
  EXPECT_EQ(friends[0], toys[0]);                                            // an object the client minted
  EXPECT_TRUE(Call::live.contains(reinterpret_cast<uint64_t>(friends[1])));  // one the server made known
  EXPECT_EQ(friends[2], nullptr);
}

TEST_F(Loopback, ADriverThatFindsMoreThanFitsFillsNoMore) {
  const CUpoint points[2] = {};
  CUpoint place = {};
  CUtoy friends[2] = {nullptr, kOtherToy};
  size_t friend_count = 1;
  driver_friends = 40;
  EXPECT_EQ(cuToyPlay_v2(nullptr, 0, points, &place, friends, &friend_count, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(friend_count, 40u);
  EXPECT_EQ(friends[1], kOtherToy);
}

TEST_F(Loopback, NullPresenceReachesTheDriver) {
  const CUpoint points[2] = {};
  CUpoint place = {};
  size_t friend_count = ~size_t{0};  // uninitialised in a program that only asks how many there are
  driver_friends = 3;
  EXPECT_EQ(cuToyPlay_v2(nullptr, 7, points, &place, nullptr, &friend_count, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_TRUE(seen.toys_null);
  EXPECT_TRUE(seen.friends_null);
  EXPECT_EQ(friend_count, 3u);
  EXPECT_EQ(cuToyPlay_v2(nullptr, 0, nullptr, &place, nullptr, &friend_count, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuToyPlay_v2(nullptr, 0, points, &place, nullptr, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Loopback, ThePerThreadFormSaysSo) {
  const CUpoint points[2] = {};
  CUpoint place = {};
  size_t friend_count = 0;
  EXPECT_EQ(cuToyPlay_v2_ptsz(nullptr, 0, points, &place, nullptr, &friend_count, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(seen.stream, CU_STREAM_PER_THREAD);
}

TEST_F(Loopback, AReplyThatDoesNotFitTheCallIsRefused) {
  const CUpoint points[2] = {};
  CUpoint place = {1, 1};
  CUtoy friends[2] = {};
  size_t friend_count = 1;
  driver_friends = 1;
  Create();
  // Two friends where the caller has room for one.
  Call::spoil_reply = [](std::vector<std::byte>& bytes) {
    cuToyPlay_v2Reply reply;
    reply.friends.Allocate(2);
    Encoder encoder;
    reply.Encode(encoder);
    bytes.assign(encoder.bytes().begin(), encoder.bytes().end());
  };
  EXPECT_EQ(cuToyPlay_v2(nullptr, 0, points, &place, friends, &friend_count, nullptr, nullptr), CUDA_ERROR_ILLEGAL_STATE);
  Call::spoil_reply = [](std::vector<std::byte>& bytes) { bytes.pop_back(); };
  EXPECT_EQ(cuToyPlay_v2(nullptr, 0, points, &place, friends, &friend_count, nullptr, nullptr), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(place.x, 1);
  EXPECT_EQ(friends[0], nullptr);
}

TEST_F(Loopback, AFunctionTheDriverLacksIsNotSupported) {
  const CUtoy toy = Create();
  table_.cuToyRename = nullptr;
  EXPECT_EQ(cuToyRename(toy, "bear", "abc", 3, nullptr, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Loopback, UnsupportedCallsSaySo) {
  EXPECT_EQ(cuToyFly(Create()), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(kInfo_cuToyFly.reason, "toys do not fly");
}

// Records that no generated client sends.
TEST_F(Loopback, TheServerRefusesMalformedRecords) {
  const auto dispatch = [](uint32_t id, const Encoder& encoder) {
    CallContext context(false);
    Decoder decoder(encoder.bytes());
    Dispatch(id, context, decoder);
    EXPECT_EQ(context.ends, 1);
    return context.malformed;
  };
  Encoder empty;
  EXPECT_TRUE(dispatch(0, empty));
  EXPECT_TRUE(dispatch(0xffff, empty));
  EXPECT_TRUE(dispatch(kInfo_cuToyFly.id, empty));   // unsupported
  EXPECT_TRUE(dispatch(kInfo_cuToyName.id, empty));  // local
  EXPECT_TRUE(dispatch(kInfo_cuToyDestroy.id, empty));

  Encoder trailing;
  cuToyDestroyRequest().Encode(trailing);
  trailing.Pod(uint64_t{1});
  EXPECT_TRUE(dispatch(kInfo_cuToyDestroy.id, trailing));

  cuToyRenameRequest rename;
  rename.size = 1;  // and no bytes of data
  Encoder mismatch;
  rename.Encode(mismatch);
  EXPECT_TRUE(dispatch(kInfo_cuToyRename.id, mismatch));
  EXPECT_EQ(seen.destroyed, 0);

  cuToyDestroyRequest unknown;
  unknown.toy = HandleId::Of(0, HandleKind::kEvent, 5, 5);
  Encoder unknown_handle;
  unknown.Encode(unknown_handle);
  EXPECT_FALSE(dispatch(kInfo_cuToyDestroy.id, unknown_handle));
  EXPECT_EQ(seen.destroyed, 0);
}

TEST_F(Loopback, TablesHoldWhatTheSpecSays) {
  EXPECT_TRUE(IsBlocking(kInfo_cuToyRename.id));
  EXPECT_FALSE(IsBlocking(kInfo_cuToyPlay_v2.id));
  EXPECT_TRUE(IsAside(kInfo_cuToyPaint.id));
  EXPECT_TRUE(kInfo_cuToyPaint.aside);
  EXPECT_FALSE(IsAside(kInfo_cuToyRename.id));
  EXPECT_FALSE(kInfo_cuToyRename.aside);
  EXPECT_STREQ(CallName(kInfo_cuToyRename.id), "cuToyRename");
  EXPECT_STREQ(CallName(0x7777), "unknown call");
  EXPECT_EQ(GateKindOf(kInfo_cuToyRename.id), GateKind::kMemory);
  EXPECT_EQ(GateKindOf(kInfo_cuToyPlay_v2.id), GateKind::kOrder);
  EXPECT_EQ(GateKindOf(kInfo_cuToyThrow.id), GateKind::kLaunch);
  EXPECT_EQ(GateKindOf(kInfo_cuToyCreate.id), GateKind::kNone);
  EXPECT_EQ(TouchesOf<cuToyThrowRequest>(), Touches::kAnything);
  EXPECT_EQ(TouchesOf<cuToyPlay_v2Request>(), Touches::kNothing);
  EXPECT_EQ(kInfo_cuToyRename.context, CallInfo::Context::kNone);
  EXPECT_EQ(kInfo_cuToyRename.capture, CallInfo::Capture::kUnsafe);
  EXPECT_FALSE(kInfo_cuToyRename.deferred_errors);
  EXPECT_TRUE(kInfo_cuToyPlay_v2.deferred_errors);
  const auto rows = ProcAddresses();
  const auto play = std::ranges::find(rows, std::string_view("cuToyPlay"), &ProcAddress::name);
  ASSERT_NE(play, rows.end());
  EXPECT_EQ(play->since, 1200);
  EXPECT_EQ(play->function, reinterpret_cast<void*>(&cuToyPlay_v2));
  EXPECT_EQ(play->per_thread_since, 1300);
  EXPECT_EQ(play->per_thread, reinterpret_cast<void*>(&cuToyPlay_v2_ptsz));
}

}  // namespace

// The bodies that the toy spec leaves to people.
CUresult Custom_cuToyGetColour(Call& call, int* colour, CUtoy toy) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult Custom_cuToyPaint(Call& call, CUtoy toy, void** colours) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult Custom_cuToyName(Call& call, const char** name) { return CUDA_ERROR_NOT_SUPPORTED; }
void Do_cuToyPaint(CallContext& call, const cuToyPaintRequest& request) { call.Finish(CUDA_ERROR_NOT_SUPPORTED); }
void Await_cuToyHurl(CallContext& call, const cuToyHurlRequest& request) { AwaitTurn(call, call.UseStream(request.stream), {}); }
void Do_cuToyHurl(CallContext& call, const cuToyHurlRequest& request) { call.Finish(CUDA_SUCCESS); }
void Do_tesseraToyTick(CallContext& call, const tesseraToyTickRequest& request) { call.Finish(CUDA_SUCCESS); }

}  // namespace tessera
