#include "server/images/image_directory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/server/images/image_fixture.h"

namespace tessera {
namespace {

class ImageDirectoryTest : public ImageTest {
 protected:
  Result<ImageDirectory> Open(uint64_t bytes_max = 1 << 20) { return ImageDirectory::Open(path_, bytes_max); }
  static Status Add(ImageDirectory& directory, const Image& image) {
    const ImageReceiver receiver = Receive(image);
    return directory.Add(image.key, image.bytes.size(), receiver.file());
  }
  static bool Has(ImageDirectory& directory, const Image& image) {
    return Equal(directory.Find(image.key, image.bytes.size()), image);
  }
  // The disk tells the time in steps.
  void Age(const Image& image, int seconds) {
    const timespec times[2] = {{time(nullptr) - seconds, 0}, {time(nullptr) - seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (path_ + "/" + image.key.Hex()).c_str(), times, 0), 0);
  }
  size_t Files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {})); }
};

TEST_F(ImageDirectoryTest, KeepsImagesForLaterProcesses) {
  const Image image = Make(4096, 1);  // the zero behind it is on a page of its own
  {
    Result<ImageDirectory> directory = Open();
    ASSERT_TRUE(directory.ok()) << directory.status().message();
    EXPECT_FALSE(Has(*directory, image));
    EXPECT_TRUE(Add(*directory, image).ok());
    EXPECT_TRUE(Has(*directory, image));
    EXPECT_EQ(directory->Find(image.key, 4095).status().code(), StatusCode::kNotFound);
  }
  Result<ImageDirectory> later = Open();
  EXPECT_FALSE(Has(*later, image)) << "a question about another size has removed what is no whole image";
  EXPECT_TRUE(Add(*later, image).ok());
  EXPECT_TRUE(Has(*later, image));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ImageDirectoryTest, WhatWasUsedLongestAgoGoesFirst) {
  Result<ImageDirectory> directory = Open(3000);
  ASSERT_TRUE(directory.ok());
  const Image a = Make(999, 1), b = Make(999, 2), c = Make(999, 3), d = Make(999, 4);
  for (const Image* image : {&a, &b, &c}) ASSERT_TRUE(Add(*directory, *image).ok());
  Age(a, 30);
  Age(b, 20);
  Age(c, 10);
  EXPECT_TRUE(Has(*directory, a));  // used now
  ASSERT_TRUE(Add(*directory, d).ok());
  EXPECT_TRUE(Has(*directory, a) && Has(*directory, c) && Has(*directory, d));
  EXPECT_FALSE(Has(*directory, b));
  EXPECT_EQ(Add(*directory, Make(3000, 5)).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Files(), 3u);
}

TEST_F(ImageDirectoryTest, TakesNothingThatIsNotWhatItsNameSays) {
  Result<ImageDirectory> directory = Open();
  ASSERT_TRUE(directory.ok());
  const Image image = Make(100, 1), other = Make(100, 2);
  const ImageReceiver receiver = Receive(image);
  EXPECT_EQ(directory->Add(other.key, 100, receiver.file()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(directory->Add(image.key, 99, receiver.file()).code(), StatusCode::kInvalidArgument);
  Result<ImageReceiver> unsealed = ImageReceiver::Make(100);
  ASSERT_TRUE(unsealed->Append(image.bytes));
  EXPECT_EQ(directory->Add(image.key, 100, unsealed->file()).code(), StatusCode::kInvalidArgument);
  const std::string file = root_ + "/file";
  std::ofstream(file).write(reinterpret_cast<const char*>(image.bytes.data()), 100).put('\0');
  const UniqueFd writable(open(file.c_str(), O_RDWR));
  EXPECT_EQ(directory->Add(image.key, 100, writable.get()).code(), StatusCode::kInvalidArgument);
  // Also one that this process cannot write to: another descriptor may.
  const UniqueFd of_a_disk(open(file.c_str(), O_RDONLY));
  EXPECT_EQ(directory->Add(image.key, 100, of_a_disk.get()).code(), StatusCode::kInvalidArgument);
  const UniqueFd half_sealed(memfd_create("half", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(write(half_sealed.get(), image.bytes.data(), 100), 100);
  ASSERT_EQ(write(half_sealed.get(), "", 1), 1);
  ASSERT_EQ(fcntl(half_sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  const UniqueFd read_only(open(("/proc/self/fd/" + std::to_string(half_sealed.get())).c_str(), O_RDONLY));
  EXPECT_EQ(directory->Add(image.key, 100, read_only.get()).code(), StatusCode::kInvalidArgument);
  const UniqueFd endless(memfd_create("endless", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(write(endless.get(), image.bytes.data(), 100), 100);
  ASSERT_EQ(write(endless.get(), "x", 1), 1);
  ASSERT_EQ(fcntl(endless.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  EXPECT_EQ(directory->Add(image.key, 100, endless.get()).code(), StatusCode::kInvalidArgument);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd read_end(ends[0]), write_end(ends[1]);
  EXPECT_EQ(directory->Add(image.key, 100, read_end.get()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Files(), 0u);
}

TEST_F(ImageDirectoryTest, OneThatLiesTakesNoPlace) {
  Result<ImageDirectory> directory = Open(3000);
  ASSERT_TRUE(directory.ok());
  const Image a = Make(999, 1), b = Make(999, 2), large = Make(2900, 3);
  ASSERT_TRUE(Add(*directory, a).ok() && Add(*directory, b).ok());
  const ImageReceiver receiver = Receive(large);
  EXPECT_EQ(directory->Add(Make(2900, 4).key, 2900, receiver.file()).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Has(*directory, a) && Has(*directory, b));
  EXPECT_EQ(Files(), 2u);
}

TEST_F(ImageDirectoryTest, ImagesOfSeveralPiecesAreCopiedWhole) {
  Result<ImageDirectory> directory = Open(uint64_t{1} << 30);
  ASSERT_TRUE(directory.ok());
  for (const size_t size :
       {KeyHasher::kPieceBytes - 1, KeyHasher::kPieceBytes, KeyHasher::kPieceBytes + 1, 3 * KeyHasher::kPieceBytes + 5}) {
    const Image image = Make(size, 1);
    EXPECT_TRUE(Add(*directory, image).ok()) << size;
    EXPECT_TRUE(Has(*directory, image)) << size;
  }
}

TEST_F(ImageDirectoryTest, AFileThatWasCutIsNoImage) {
  Result<ImageDirectory> directory = Open();
  const Image image = Make(5000, 1);
  ASSERT_TRUE(Add(*directory, image).ok());
  ASSERT_EQ(truncate((path_ + "/" + image.key.Hex()).c_str(), 4096), 0);
  EXPECT_FALSE(Has(*directory, image));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(ImageDirectoryTest, LeavesFilesOfOthersAndRemovesItsOwnLeftOvers) {
  Result<ImageDirectory> directory = Open(1000);
  std::ofstream(path_ + "/README") << std::string(2000, 'x');
  const Image dead = Make(10, 9);
  std::ofstream(path_ + "/" + dead.key.Hex() + ".77.new") << "half";
  const timespec old[2] = {{time(nullptr) - 3600, 0}, {time(nullptr) - 3600, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (path_ + "/" + dead.key.Hex() + ".77.new").c_str(), old, 0), 0);
  EXPECT_TRUE(Add(*directory, Make(900, 1)).ok());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/README"));
  EXPECT_EQ(Files(), 2u);
}

TEST_F(ImageDirectoryTest, IsNotUsedWhereOthersMayWrite) {
  std::filesystem::create_directories(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  const Result<ImageDirectory> directory = Open();
  EXPECT_EQ(directory.status().code(), StatusCode::kPermissionDenied);
  EXPECT_NE(directory.status().message().find("chmod 700"), std::string::npos);
}

}  // namespace
}  // namespace tessera
