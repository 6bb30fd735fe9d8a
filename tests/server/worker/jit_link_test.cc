// What the worker hands the driver for a link is alive whenever the driver may use it, links side by side and one after the
// other: the driver of this test writes through all that it was given, in each call, as NVIDIA's does (cuda.h, cuLinkCreate). The
// address sanitizer sees the rest.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "generated/messages/module.h"
#include "generated/messages/service.h"
#include "generated/mock/recording_table.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

constexpr size_t kLogBytes = 4096;
constexpr size_t kOptions = 5;

// What the driver was given for a link.
struct Given {
  CUjit_option options[kOptions] = {};
  void** values = nullptr;
  char* logs[2] = {};  // info, error
};

struct Driver {
  std::map<CUlinkState, Given> links;
  std::set<std::thread::id> threads;
  uintptr_t last = 0x1000;
} driver;

// All of the buffers and of the outputs among the values.
void WriteAll(const Given& given, const char* text) {
  for (char* log : given.logs) {
    std::memset(log, ' ', kLogBytes);
    std::strcpy(log, text);
  }
  const uint64_t written = std::strlen(text);
  const float wall_time = 1.5F;
  for (size_t i = 0; i < kOptions; ++i) {
    if (given.options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || given.options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      std::memcpy(&given.values[i], &written, sizeof(written));
    }
    if (given.options[i] == CU_JIT_WALL_TIME) std::memcpy(&given.values[i], &wall_time, sizeof(wall_time));
  }
}

CUresult Create(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  driver.threads.insert(std::this_thread::get_id());
  Given given;
  given.values = values;
  for (size_t i = 0; i < count && i < kOptions; ++i) {
    given.options[i] = options[i];
    if (options[i] == CU_JIT_INFO_LOG_BUFFER) given.logs[0] = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) given.logs[1] = static_cast<char*>(values[i]);
  }
  driver.last += 0x100;
  *state = reinterpret_cast<CUlinkState>(driver.last);
  driver.links[*state] = given;
  WriteAll(given, "created");
  return CUDA_SUCCESS;
}

CUresult Add(CUlinkState state, CUjitInputType, void* data, size_t bytes, const char* name, unsigned, CUjit_option*, void**) {
  driver.threads.insert(std::this_thread::get_id());
  std::string text(static_cast<const char*>(data), bytes);
  WriteAll(driver.links.at(state), (std::string("added ") + name).c_str());
  return CUDA_SUCCESS;
}

CUresult Complete(CUlinkState state, void** cubin, size_t* bytes) {
  driver.threads.insert(std::this_thread::get_id());
  static char code[] = "code";
  *cubin = code;
  *bytes = sizeof(code);
  WriteAll(driver.links.at(state), "completed");
  return CUDA_SUCCESS;
}

CUresult Destroy(CUlinkState state) {
  driver.threads.insert(std::this_thread::get_id());
  WriteAll(driver.links.at(state), "destroyed");
  driver.links.erase(state);
  return CUDA_SUCCESS;
}

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    driver = {};
    table_.cuLinkCreate_v2 = &Create;
    table_.cuLinkAddData_v2 = &Add;
    table_.cuLinkComplete = &Complete;
    table_.cuLinkDestroy = &Destroy;
    client_ = std::make_unique<TestClient>(table_);
  }

  template <typename Request>
  std::optional<TestReply> Ask(const Request& request) {
    Encoder encoder;
    request.Encode(encoder);
    client_->Send(Request::kId, kWantsReply, 1, {}, encoder.bytes());
    std::optional<TestReply> reply = client_->Next();
    EXPECT_TRUE(reply.has_value());
    EXPECT_EQ(reply->header.result, CUDA_SUCCESS);
    return reply;
  }

  HandleId Begin() {
    const std::vector<uint32_t> options = {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                           CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    const std::vector<uint64_t> values = {0, 0, kLogBytes, 0, kLogBytes};
    cuLinkCreate_v2Request request;
    request.state = HandleId::Of(0, HandleKind::kLinkState, 1, ++states_);
    request.options.Borrow(options);
    request.values.Borrow(values);
    Ask(request);
    return request.state;
  }

  // The error log that came with the answer.
  std::string AddText(HandleId state, const std::string& name) {
    tesseraBlobWriteRequest blob;
    const std::string text = "text of " + name;
    blob.blob = ++blobs_;
    blob.total_bytes = text.size();
    blob.data = std::as_bytes(std::span(text));
    Ask(blob);
    cuLinkAddData_v2Request request;
    request.state = state;
    request.type = CU_JIT_INPUT_PTX;
    request.blob = blob.blob;
    request.name = name;
    return Log<cuLinkAddData_v2Reply>(Ask(request));
  }

  std::string End(HandleId state) {
    cuLinkCompleteRequest request;
    request.state = state;
    return Log<cuLinkCompleteReply>(Ask(request));
  }

  void Drop(HandleId state) {
    cuLinkDestroyRequest request;
    request.state = state;
    Ask(request);
  }

  template <typename Reply>
  std::string Log(const std::optional<TestReply>& answer) {
    Reply reply;
    Decoder in(answer->payload);
    EXPECT_TRUE(reply.Decode(in));
    EXPECT_EQ(reply.wall_time_ms, 1.5F);
    EXPECT_EQ(std::string(reply.info_log), std::string(reply.error_log));
    return std::string(reply.error_log);
  }

  DriverTable table_ = MakeRecordingTable([](int) { return CUDA_SUCCESS; });
  std::unique_ptr<TestClient> client_;
  uint32_t states_ = 0;
  uint64_t blobs_ = 0;
};

TEST_F(LinkTest, WhatALinkWasGivenLivesUntilItIsDestroyed) {
  const HandleId state = Begin();
  EXPECT_EQ(AddText(state, "first"), "added first");
  EXPECT_EQ(AddText(state, "a name that is too long for a string to keep in itself"),
            "added a name that is too long for a string to keep in itself");
  EXPECT_EQ(End(state), "completed");
  Drop(state);
}

TEST_F(LinkTest, TwoLinksAtOnce) {
  const HandleId one = Begin(), two = Begin();
  EXPECT_EQ(AddText(one, "one"), "added one");
  EXPECT_EQ(AddText(two, "two"), "added two");
  EXPECT_EQ(End(one), "completed");
  Drop(one);
  EXPECT_EQ(AddText(two, "three"), "added three");
  EXPECT_EQ(End(two), "completed");
  Drop(two);
}

TEST_F(LinkTest, OneAfterTheOther) {
  for (int i = 0; i < 40; ++i) {
    const HandleId state = Begin();
    EXPECT_EQ(AddText(state, "text"), "added text");
    EXPECT_EQ(End(state), "completed");
    Drop(state);
  }
}

// NVIDIA's driver ends the process otherwise. Helper threads are started for each call that finds the others busy.
TEST_F(LinkTest, OneThreadMakesTheCallsOfAllLinks) {
  const HandleId one = Begin(), two = Begin();
  AddText(one, "one");
  AddText(two, "two");
  End(two);
  End(one);
  Drop(one);
  Drop(two);
  EXPECT_EQ(driver.threads.size(), 1U);
}

TEST_F(LinkTest, ALinkThatIsLeftToTheEndOfTheSession) {
  const HandleId state = Begin();
  EXPECT_EQ(AddText(state, "text"), "added text");
}

}  // namespace
}  // namespace tessera
