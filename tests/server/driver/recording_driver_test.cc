#include "server/driver/recording_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "generated/driver_names.h"
#include "generated/mock/recording_table.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

TEST(RecordingDriver, RecordsCallsAndReturnsWhatItWasTold) {
  RecordingDriver driver;
  driver.SetResult(CUDA_ERROR_UNKNOWN);
  driver.SetResult("cuMemFree_v2", CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver.table().cuMemFree_v2(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver.table().cuMemAlloc_v2(nullptr, 1), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(driver.table().cuMemFree_v2(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(driver.calls(), ElementsAre("cuMemFree_v2", "cuMemAlloc_v2", "cuMemFree_v2"));
  EXPECT_EQ(driver.CallCount("cuMemFree_v2"), 2u);
  driver.Clear();
  EXPECT_TRUE(driver.calls().empty());
}

// Every pointer of the table is filled, and records the name that the loader would look up for it.
TEST(RecordingDriver, CoversTheTable) {
  RecordingDriver driver;
  ASSERT_EQ(RecordingNames().size(), DriverNames().size());
  ASSERT_EQ(sizeof(DriverTable), DriverNames().size() * sizeof(void*));
  for (const DriverName& entry : DriverNames()) {
    CUresult (*function)() = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&driver.table()) + entry.offset, sizeof(function));
    ASSERT_NE(function, nullptr) << entry.name;
  }
  for (size_t i = 0; i < DriverNames().size(); ++i) EXPECT_STREQ(DriverNames()[i].name, RecordingNames()[i]);
  driver.table().cuStreamSynchronize_ptsz(nullptr);
  driver.table().cuProfilerStop();
  EXPECT_THAT(driver.calls(), ElementsAre("cuStreamSynchronize_ptsz", "cuProfilerStop"));
}

}  // namespace
}  // namespace tessera
