#include "client-stub/process/compile_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace tessera {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }

class CompileCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    above_ = name;
    directory_ = above_ + "/a/tessera";
  }
  void TearDown() override {
    for (const std::string& file : Files()) unlink(file.c_str());
    rmdir(directory_.c_str());
    rmdir((above_ + "/a").c_str());
    EXPECT_EQ(rmdir(above_.c_str()), 0);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    DIR* const directory = opendir(directory_.c_str());
    if (directory == nullptr) return files;
    while (const dirent* entry = readdir(directory)) {
      if (entry->d_type == DT_REG) files.push_back(directory_ + "/" + entry->d_name);
    }
    closedir(directory);
    return files;
  }
  static std::string Load(const CompileCache& cache, std::string_view key) {
    std::vector<std::byte> found;
    if (!cache.Load(key, &found)) return "not known";
    return std::string(reinterpret_cast<const char*>(found.data()), found.size());
  }

  std::string above_, directory_;
};

TEST_F(CompileCacheTest, KeepsResultsByTheirKeys) {
  const CompileCache cache(directory_, 1 << 20);
  EXPECT_EQ(Load(cache, "one"), "not known");
  cache.Store("one", Bytes("first"));
  cache.Store("two", Bytes("second"));
  cache.Store("two", Bytes("again"));
  const CompileCache another(directory_, 1 << 20);
  EXPECT_EQ(Load(another, "one"), "first");
  EXPECT_EQ(Load(another, "two"), "again");
  EXPECT_EQ(Load(another, "three"), "not known");
  EXPECT_EQ(Files().size(), 2u);
  struct stat status {};
  ASSERT_EQ(stat(directory_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CompileCacheTest, DamagedFilesAreNotKnown) {
  const CompileCache cache(directory_, 1 << 20);
  cache.Store("key", Bytes("a result of some length"));
  const std::vector<std::string> files = Files();
  ASSERT_EQ(files.size(), 1u);
  std::ifstream in(files[0], std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(files[0], std::ios::binary) << whole.substr(0, length);
    EXPECT_EQ(Load(cache, "key"), "not known") << length;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    std::ofstream(files[0], std::ios::binary) << changed;
    EXPECT_EQ(Load(cache, "key"), "not known") << i;
  }
  std::ofstream(files[0], std::ios::binary) << whole;
  EXPECT_EQ(Load(cache, "key"), "a result of some length");
}

TEST_F(CompileCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  const std::string large(1000, 'x');
  const CompileCache cache(directory_, 3500);
  std::vector<std::string> paths;
  for (const char* key : {"a", "b", "c"}) {
    cache.Store(key, Bytes(large));
    for (const std::string& file : Files()) {
      if (std::find(paths.begin(), paths.end(), file) == paths.end()) paths.push_back(file);
    }
  }
  ASSERT_EQ(paths.size(), 3u);
  for (size_t i = 0; i < paths.size(); ++i) {
    const timespec used{static_cast<time_t>(1000 + i), 0};
    const timespec times[2] = {used, used};
    ASSERT_EQ(utimensat(AT_FDCWD, paths[i].c_str(), times, 0), 0);
  }
  EXPECT_EQ(Load(cache, "a"), large);  // used again: now "b" is the oldest
  cache.Store("d", Bytes(large));
  EXPECT_EQ(Load(cache, "b"), "not known");
  for (const char* key : {"a", "c", "d"}) EXPECT_EQ(Load(cache, key), large) << key;
  cache.Store("e", Bytes(std::string(4000, 'y')));
  EXPECT_EQ(Load(cache, "e"), "not known");
}

TEST_F(CompileCacheTest, WithoutADirectoryNothingIsKept) {
  const CompileCache cache("", 1 << 20);
  cache.Store("key", Bytes("result"));
  EXPECT_EQ(Load(cache, "key"), "not known");
  const CompileCache nowhere("/proc/nothing/here", 1 << 20);
  nowhere.Store("key", Bytes("result"));
  EXPECT_EQ(Load(nowhere, "key"), "not known");
}

}  // namespace
}  // namespace tessera
