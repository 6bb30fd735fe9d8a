// What tests of images share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "protocol/image/image_key.h"
#include "server/images/image_file.h"

namespace tessera {

class ImageTest : public testing::Test {
 protected:
  struct Image {
    std::vector<std::byte> bytes;
    ImageKey key;
  };

  void SetUp() override {
    std::string pattern = testing::TempDir() + "imagesXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    path_ = root_ + "/cache/images";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static Image Make(size_t size, int seed) {
    Image image;
    for (size_t i = 0; i < size; ++i) image.bytes.push_back(static_cast<std::byte>(i + static_cast<size_t>(seed) * 31));
    image.key = KeyOf(image.bytes);
    return image;
  }
  // As a worker has it.
  static ImageReceiver Receive(const Image& image) {
    Result<ImageReceiver> receiver = ImageReceiver::Make(image.bytes.size());
    EXPECT_TRUE(receiver.ok() && receiver->Append(image.bytes) && receiver->Seal().ok());
    return std::move(receiver).value();
  }
  static bool Equal(const Result<UniqueFd>& file, const Image& image) {
    if (!file.ok()) return false;
    const Result<ImageFile> mapped = ImageFile::Map(file.value().get(), image.bytes.size());
    return mapped.ok() && std::equal(image.bytes.begin(), image.bytes.end(), mapped.value().bytes().begin());
  }

  std::string root_;
  std::string path_;
};

}  // namespace tessera
