#include "protocol/base/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kDevices = {"GPU-0a1b", "GPU-0a2c", "MIG-77aa", "GPU-5d5d"};

std::vector<size_t> Selected(std::string_view list) {
  const VisibleDevices visible = SelectVisibleDevices(list, kDevices);
  EXPECT_FALSE(visible.repeats) << list;
  return visible.numbers;
}

TEST(VisibleDevices, StandInTheOrderOfTheList) {
  EXPECT_THAT(Selected("1"), ElementsAre(1));
  EXPECT_THAT(Selected("3,0,2"), ElementsAre(3, 0, 2));
  EXPECT_THAT(Selected("GPU-5d5d,GPU-0a1"), ElementsAre(3, 0));
  EXPECT_THAT(Selected("MIG-7"), ElementsAre(2));
  EXPECT_THAT(Selected("MIG-5d5d,MIG-7,MIG-0a1"), ElementsAre(3, 2, 0));
  EXPECT_THAT(Selected("MIG-0a"), IsEmpty());
}

TEST(VisibleDevices, EndBeforeTheFirstEntryThatNamesNone) {
  EXPECT_THAT(Selected("0,7,1"), ElementsAre(0));
  EXPECT_THAT(Selected("0,-1,1"), ElementsAre(0));
  EXPECT_THAT(Selected("0,,1"), ElementsAre(0));
  EXPECT_THAT(Selected("0,two,1"), ElementsAre(0));
  EXPECT_THAT(Selected("GPU-5,GPU-9,GPU-0a1b"), ElementsAre(3));
  for (const char* none :
       {"", "junk", "junk,0", "9", "99999999999999999999", "GPU-0a", "GPU-", "gpu-5d5d", "5d5d", "MIG-GPU-77aa/1/0", ",0"})
    EXPECT_THAT(Selected(none), IsEmpty()) << none;
}

TEST(VisibleDevices, NumbersEndWithTheirDigits) {
  EXPECT_THAT(Selected("1gpu3,3ampere"), ElementsAre(1, 3));
  EXPECT_THAT(Selected(" 0"), ElementsAre(0));
  EXPECT_THAT(Selected("0 ,1"), ElementsAre(0, 1));
  EXPECT_THAT(Selected("0, 1, 3"), ElementsAre(0, 1, 3));
  EXPECT_THAT(Selected("00"), ElementsAre(0));
  EXPECT_THAT(Selected("0x0"), ElementsAre(0));
  EXPECT_THAT(Selected("2, +3, -0"), ElementsAre(2, 3, 0));
  EXPECT_THAT(Selected("- 1"), IsEmpty());
}

TEST(VisibleDevices, AreAllOfOneForm) {
  EXPECT_THAT(Selected("GPU-5,0"), ElementsAre(3));
  EXPECT_THAT(Selected("0,GPU-5"), ElementsAre(0));
  EXPECT_THAT(Selected("GPU-5,MIG-7"), ElementsAre(3));
}

TEST(VisibleDevices, AreInvalidWhenOneIsNamedTwice) {
  for (const char* list : {"0,0", "1,0,1", "0, 00,9", "GPU-5,GPU-5d"})
    EXPECT_TRUE(SelectVisibleDevices(list, kDevices).repeats) << list;
  EXPECT_THAT(SelectVisibleDevices("1,0,1,3", kDevices).numbers, ElementsAre(1, 0, 1));
  EXPECT_THAT(Selected("0,9,0"), ElementsAre(0));  // the list has ended
}

TEST(VisibleDevices, MayPlainlyNotBeWanted) {
  for (const char* none : {"", "-1", "-1,0", "-none"}) EXPECT_TRUE(WantsNoDevice(none)) << none;
  for (const char* list : {"0", "-0", "-0,1", "0,-1", "junk", "GPU-5", "7"}) EXPECT_FALSE(WantsNoDevice(list)) << list;
}

}  // namespace
}  // namespace tessera
