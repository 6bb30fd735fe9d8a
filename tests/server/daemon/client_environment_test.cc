#include "server/daemon/children/client_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(AllowedVariables, TakesListedDriverVariablesAndNothingElse) {
  EXPECT_THAT(AllowedVariables({"CUDA_DEVICE_MAX_CONNECTIONS=1", "LD_PRELOAD=/tmp/evil.so", "CUDA_CACHE_PATH=/root/x",
                                "CUDA_VISIBLE_DEVICES=7", "CUDA_MODULE_LOADING=EAGER=odd",
                                "CUDA_FORCE_PTX_JIT=", "CUDA_DEVICE_MAX_CONNECTIONS", "=1", ""}),
              ElementsAre(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "1"), Pair("CUDA_MODULE_LOADING", "EAGER=odd"),
                          Pair("CUDA_FORCE_PTX_JIT", "")));
}

TEST(DevicesOfSession, AreThoseItWasGivenElseTheDaemons) {
  EXPECT_THAT(DevicesOfSession("GPU-bb,GPU-aa", "1", {"GPU-bb"}), ElementsAre("GPU-bb", "GPU-aa"));
  EXPECT_THAT(DevicesOfSession("", "1,0", {"GPU-bb", "GPU-aa"}), ElementsAre("GPU-bb", "GPU-aa"));
  EXPECT_THAT(DevicesOfSession("", "0,junk,1", {"GPU-aa"}), ElementsAre("GPU-aa"));  // what the driver made of it
  EXPECT_THAT(DevicesOfSession("", "MIG-5", {"GPU-55"}), ElementsAre("MIG-5"));
  EXPECT_THAT(DevicesOfSession("", nullptr, {"GPU-aa"}), IsEmpty());
}

TEST(SelectAmong, CountsInWhatTheSessionMayHave) {
  const std::vector<std::string> own = {"GPU-44", "GPU-55", "GPU-66"};
  EXPECT_EQ(SelectAmong(own, "0"), "GPU-44");
  EXPECT_EQ(SelectAmong(own, "2, 0"), "GPU-66,GPU-44");
  EXPECT_EQ(SelectAmong(own, "GPU-5"), "GPU-55");
  EXPECT_EQ(SelectAmong(own, ""), "GPU-44,GPU-55,GPU-66");
}

TEST(SelectAmong, EndsBeforeTheFirstEntryThatNamesNoDevice) {
  const std::vector<std::string> own = {"GPU-44", "GPU-55"};
  EXPECT_EQ(SelectAmong(own, "1,7,0"), "GPU-55");
  for (const char* none : {"-1", "2", "GPU-cc", "junk", "99999999999999999999"}) EXPECT_EQ(SelectAmong(own, none), "-1") << none;
}

TEST(SelectAmong, LeavesARepeatedDeviceToTheDriver) {
  EXPECT_EQ(SelectAmong({"GPU-44", "GPU-55"}, "0,0"), "GPU-44,GPU-44");
  EXPECT_EQ(SelectAmong({"GPU-44"}, "GPU-4,GPU-44"), "GPU-44,GPU-44");
}

}  // namespace
}  // namespace tessera
