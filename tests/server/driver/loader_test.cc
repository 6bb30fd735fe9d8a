// Loading a driver: what is found and filled in, what is refused and in which words.
#include "server/driver/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "generated/driver_names.h"
#include "server/driver/missing_entry.h"
#include "server/driver/stub_file.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::string Library(const char* name) { return std::string(TEST_LIBRARY_DIR) + "/" + name; }

TEST(Loader, FillsInWhatTheDriverHasAndLeavesTheRestNull) {
  auto driver = Driver::Load(Library("libfake-driver.so"));
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  const DriverTable& table = driver.value()->table();
  EXPECT_NE(table.cuInit, nullptr);
  EXPECT_NE(table.cuDeviceGetCount, nullptr);
  EXPECT_EQ(table.cuMemAlloc_v2, nullptr);
  EXPECT_EQ(driver.value()->missing_count(), static_cast<int>(DriverNames().size()) - 3);
  EXPECT_THAT(driver.value()->path(), HasSubstr("libfake-driver.so"));
  setenv("FAKE_DEVICE_COUNT", "5", 1);
  int count = 0;
  EXPECT_EQ(table.cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 5);
}

TEST(Loader, CountsDevicesOrSaysWhyThereIsNone) {
  auto driver = Driver::Load(Library("libfake-driver.so"));
  ASSERT_TRUE(driver.ok());
  setenv("FAKE_INIT_RESULT", "0", 1);
  setenv("FAKE_DEVICE_COUNT", "2", 1);
  auto count = driver.value()->CountDevices();
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(count.value(), 2);

  setenv("FAKE_DEVICE_COUNT", "0", 1);
  count = driver.value()->CountDevices();
  ASSERT_FALSE(count.ok());
  EXPECT_THAT(count.status().message(), HasSubstr("reports no device"));

  setenv("FAKE_INIT_RESULT", "100", 1);
  count = driver.value()->CountDevices();
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(count.status().message(), HasSubstr("failed with 100 (words for it)"));
}

TEST(Loader, RefusesWhatIsNoDriver) {
  auto driver = Driver::Load(Library("libnot-a-driver.so"));
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(driver.status().message(), HasSubstr("it has no cuInit"));
}

TEST(Loader, NeverTakesTesserasOwnLibrary) {
  EXPECT_TRUE(IsStubFile(Library("libmarked.so")));
  auto driver = Driver::Load(Library("libmarked.so"));
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(driver.status().message(), HasSubstr("is Tessera's client library"));
}

TEST(Loader, NamesWhatItTried) {
  auto driver = Driver::Load("/nonexistent/libcuda.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(driver.status().message(), HasSubstr("/nonexistent/libcuda.so.1"));
}

TEST(StubFile, OtherFilesAreNotMarked) {
  EXPECT_FALSE(IsStubFile(Library("libfake-driver.so")));
  EXPECT_FALSE(IsStubFile("/nonexistent"));
  EXPECT_FALSE(IsStubFile("/"));
  const std::string path = ::testing::TempDir() + "/short_elf";
  std::ofstream(path) << "\177ELF\2\1\1";
  EXPECT_FALSE(IsStubFile(path));
}

// A damaged file must not be read beyond its notes: every byte of the ELF header and the program headers is spoilt once.
TEST(StubFile, SurvivesDamage) {
  std::ifstream in(Library("libmarked.so"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_GT(bytes.size(), 1000u);
  const std::string path = ::testing::TempDir() + "/damaged";
  for (size_t i = 0; i < 1000; ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(0xff);
    std::ofstream(path, std::ios::binary) << damaged;
    IsStubFile(path);
  }
}

TEST(MissingEntry, IsNotSupported) {
  EXPECT_EQ(MissingEntry("cuFuture"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(MissingEntry("cuFuture"), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace tessera
