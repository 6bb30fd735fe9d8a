// A process that carries sessions asks its keeper for files: it gets those of the service, and no others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "protocol/base/small_file.h"
#include "protocol/keeper/keeper.h"

namespace tessera {
namespace {

TEST(KeeperFiles, NoneButThoseOfTheServiceAreOpened) {
  const std::string directory = testing::TempDir() + "keeper_files_" + std::to_string(getpid());
  ASSERT_TRUE(std::filesystem::create_directory(directory));
  const std::string key = directory + "/key.pem";
  const std::string other = directory + "/other";
  std::ofstream(key) << "a key";
  std::ofstream(other) << "a secret";
  const std::vector<std::string> files = {key, directory + "/missing", ""};
  Result<UniqueFd> opened = OpenOneOf(files, key);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(ReadSmallFile(*opened, key, 100).value(), "a key");
  EXPECT_EQ(OpenOneOf(files, directory + "/missing").status().code(), StatusCode::kNotFound);
  for (const std::string& path : {other, std::string("/etc/shadow"), std::string(), directory + "/./key.pem", key + "/"})
    EXPECT_EQ(OpenOneOf(files, path).status().code(), StatusCode::kPermissionDenied) << path;
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tessera
