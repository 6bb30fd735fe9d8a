#include "server/daemon/children/client_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(AllowedVariables, TakesListedDriverVariablesAndNothingElse) {
  EXPECT_THAT(AllowedVariables({"CUDA_DEVICE_MAX_CONNECTIONS=1", "LD_PRELOAD=/tmp/evil.so", "CUDA_CACHE_PATH=/root/x",
                                "CUDA_VISIBLE_DEVICES=7", "CUDA_MODULE_LOADING=EAGER=odd",
                                "CUDA_FORCE_PTX_JIT=", "CUDA_DEVICE_MAX_CONNECTIONS", "=1", ""}),
              ElementsAre(Pair("CUDA_DEVICE_MAX_CONNECTIONS", "1"), Pair("CUDA_MODULE_LOADING", "EAGER=odd"),
                          Pair("CUDA_FORCE_PTX_JIT", "")));
}

TEST(SelectAmong, CountsInTheDaemonsList) {
  EXPECT_EQ(SelectAmong("4,5,6", "0"), "4");
  EXPECT_EQ(SelectAmong("4,5,6", "2, 0"), "6,4");
  EXPECT_EQ(SelectAmong("GPU-aa,GPU-bb", "1"), "GPU-bb");
  EXPECT_EQ(SelectAmong("GPU-aa,GPU-bb", "GPU-aa"), "GPU-aa");
}

TEST(SelectAmong, EndsBeforeTheFirstEntryThatNamesNoDevice) {
  EXPECT_EQ(SelectAmong("4,5", "1,7,0"), "5");
  EXPECT_EQ(SelectAmong("4,5", "-1"), "-1");
  EXPECT_EQ(SelectAmong("4,5", "2"), "-1");
  EXPECT_EQ(SelectAmong("4,5", "GPU-cc"), "-1");
  EXPECT_EQ(SelectAmong("4,5", ""), "-1");
  EXPECT_EQ(SelectAmong("", "0"), "-1");  // the daemon itself has none
  EXPECT_EQ(SelectAmong("4,5", "99999999999999999999"), "-1");
}

}  // namespace
}  // namespace tessera
